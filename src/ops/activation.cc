#include "ops/activation.h"

#include <numbers>

#include "base/check.h"

namespace tandem::ops {

using term::constant;
using term::Function;
using term::Term;

Term gelu(const Term& x) {
  const auto erf = term::apply(Function::kErf, x * constant(std::numbers::sqrt2 / 2));
  return x * constant(0.5) * (constant(1) + erf);
}

Term silu(const Term& x) { return x * term::apply(Function::kSigmoid, x); }

Term activate(Activation act, const Term& x) {
  switch (act) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return term::relu(x);
    case Activation::kGelu:
      return gelu(x);
    case Activation::kSilu:
      return silu(x);
    case Activation::kSigmoid:
      return term::apply(Function::kSigmoid, x);
    case Activation::kTanh:
      return term::apply(Function::kTanh, x);
  }
  CHECK(false);
}

}  // namespace tandem::ops

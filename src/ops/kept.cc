#include "ops/kept.h"

#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

// x * something that grows with x: two arguments may have the same result.
bool hides_argument(Activation act) { return act == Activation::kGelu || act == Activation::kSilu; }

}  // namespace

std::optional<DType> kept_for_backward(const Op& op, DType result) {
  if (op.is(kLinear) && hides_argument(op.get<Linear>().act)) return result;
  if (op.is(kConv2d) && hides_argument(op.get<Conv2d>().act)) return result;
  if (op.is(kMaxPool2d)) return DType::kInt64;
  return std::nullopt;
}

}  // namespace tandem::ops

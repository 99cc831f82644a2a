#include "ops/kept.h"

#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

// Returns whether `act` is x times a function that grows with x, so that two arguments may have the
// same result.
bool hides_argument(Activation act) { return act == Activation::kGelu || act == Activation::kSilu; }

Activation activation_of(const Op& op) {
  if (op.is(kLinear)) return op.get<Linear>().act;
  return op.is(kConv2d) ? op.get<Conv2d>().act : Activation::kNone;
}

}  // namespace

std::optional<DType> kept_for_backward(const Op& op, DType result) {
  if (hides_argument(activation_of(op))) return result;
  if (op.is(kMaxPool2d)) return DType::kInt64;
  return std::nullopt;
}

bool keeps_result(const Op& op) {
  const auto act = activation_of(op);
  return act != Activation::kNone && !hides_argument(act);
}

}  // namespace tandem::ops

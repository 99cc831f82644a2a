#include "ops/saved_for_backward.h"

#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

// Returns whether `act` is x times a function that grows with x, so that two arguments may have the
// same result.
bool hides_argument(Activation act) { return act == Activation::kGelu || act == Activation::kSilu; }

Activation get_activation(const Op& op) {
  if (op.is(kLinear)) return op.get<LinearAttributes>().act;
  return op.is(kConv2d) ? op.get<Conv2d>().act : Activation::kNone;
}

}  // namespace

std::optional<DType> find_saved_dtype(const Op& op, DType result) {
  if (hides_argument(get_activation(op))) return result;
  if (op.is(kMaxPool2d)) return DType::kInt64;
  return std::nullopt;
}

bool saves_result(const Op& op) {
  const auto act = get_activation(op);
  return act != Activation::kNone && !hides_argument(act);
}

}  // namespace tandem::ops

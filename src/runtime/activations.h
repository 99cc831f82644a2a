// The activation functions that an operator may apply to its result, and their derivatives.
#pragma once

#include "ops/attributes.h"
#include "runtime/tensor.h"

namespace tandem::runtime {

at::Tensor activate(ops::Activation act, const at::Tensor& x);

// Returns whether the result of `act` is enough to compute its gradient. If not, the gradient needs
// the argument.
constexpr bool has_gradient_from_result(ops::Activation act) {
  return act != ops::Activation::kGelu && act != ops::Activation::kSilu;
}

// Returns the argument's gradient, given the result's. `from` is the result if
// has_gradient_from_result(act), and the argument otherwise.
at::Tensor compute_activation_gradient(ops::Activation act, const at::Tensor& gradient,
                                       const at::Tensor& from);

}  // namespace tandem::runtime

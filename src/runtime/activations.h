// The functions that may stand at the end of an operator, and their derivatives.
#pragma once

#include "ops/attributes.h"
#include "runtime/tensor.h"

namespace tandem::runtime {

at::Tensor activate(ops::Activation act, const at::Tensor& x);

// Is the result enough to differentiate it? Where it is not, the argument is needed.
constexpr bool has_gradient_from_result(ops::Activation act) {
  return act != ops::Activation::kGelu && act != ops::Activation::kSilu;
}

// The argument's gradient; `from` is the result where that is enough, else the argument.
at::Tensor activation_gradient(ops::Activation act, const at::Tensor& gradient,
                               const at::Tensor& from);

}  // namespace tandem::runtime

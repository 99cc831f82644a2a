// What kernels keep of an operator's forward pass for the backward pass, beside its operands and
// its result, which would else be made again: what an activation inside the operator was applied
// to, where the result does not tell it, and the places of maxima.
#pragma once

#include <optional>

#include "ops/op.h"
#include "tensor/dtype.h"

namespace tandem::ops {

// Of what type, an element for each of the result's, which is of type `result`; nullopt: nothing
// that counts. (A norm's statistics are a number or two for a row.)
std::optional<DType> kept_for_backward(const Op& op, DType result);

// Is it the result, from which the gradient of an activation inside the operator is made?
bool keeps_result(const Op& op);

}  // namespace tandem::ops

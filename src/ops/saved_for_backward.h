// The values that kernels save for the backward pass in addition to an operator's operands and
// result. Without them the backward pass would have to recompute them. They are the argument of a
// fused activation, if the result does not determine it, and the positions of maxima.
#pragma once

#include <optional>

#include "ops/op.h"
#include "tensor/dtype.h"

namespace tandem::ops {

// Returns the element type of the values that `op` saves for backward, one for each element of its
// result, which has type `result`. Returns nullopt if it saves nothing of that size. (A norm's
// statistics, one or two numbers per row, are not counted.)
std::optional<DType> find_saved_dtype(const Op& op, DType result);

// Returns whether the backward pass computes the gradient of `op`'s fused activation from the
// result, so that the result is saved for backward.
bool saves_result(const Op& op);

}  // namespace tandem::ops

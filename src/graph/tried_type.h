// The type of an operator's result, of operands that are tried by the thousand and mostly do not
// fit: without what a graph would ask of the operator next, and mostly without a reason.
#pragma once

#include <optional>
#include <span>

#include "ops/op.h"
#include "tensor/tensor_type.h"

namespace tandem::graph {

// What result_type returns. Where it throws: nothing, or a UserError as well.
std::optional<TensorType> tried_type(const ops::Op& op, std::span<const TensorType> inputs);

}  // namespace tandem::graph

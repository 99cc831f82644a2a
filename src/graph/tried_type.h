// Result types for candidate operands, which are tried by the thousand and mostly do not fit. It
// skips what a graph would ask of the operator next, and mostly skips the error message.
#pragma once

#include <optional>
#include <span>

#include "ops/op.h"
#include "tensor/tensor_type.h"

namespace tandem::graph {

// Returns what result_type returns. If result_type throws, this returns nullopt or throws UserError
// as well.
std::optional<TensorType> tried_type(const ops::Op& op, std::span<const TensorType> inputs);

}  // namespace tandem::graph

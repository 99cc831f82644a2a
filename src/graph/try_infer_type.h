// Result types for candidate operands, which are tried by the thousand and mostly do not fit. It
// skips what a graph would ask of the operator next, and mostly skips the error message.
#pragma once

#include <optional>
#include <span>

#include "ops/op.h"
#include "tensor/tensor_type.h"

namespace tandem::graph {

// Returns what infer_result_type returns. If infer_result_type throws, this returns nullopt or
// throws UserError as well.
std::optional<TensorType> try_infer_type(const ops::Op& op, std::span<const TensorType> inputs);

}  // namespace tandem::graph

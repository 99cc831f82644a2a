// Computes result sizes from index text alone, without an IndexMap. It serves searches that try
// thousands of operands, most of which do not fit. It throws nothing and allocates almost nothing.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "tensor/shape.h"

namespace tandem::term {

// Returns the output's sizes if resolve_index would resolve `text`, or nullopt if it would throw.
// "b k, n k -> b n" with [2, 3] and [4, 3] gives [2, 4]; with [2, 3] and [4, 5] it gives nullopt.
std::optional<Shape> compute_result_sizes(std::string_view text, std::span<const Shape> inputs);

}  // namespace tandem::term

// What index text says of sizes alone, without an IndexMap: for operands that are tried by the
// thousand, most of them in vain. Nothing is allocated and nothing thrown.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "tensor/shape.h"

namespace tandem::term {

// The sizes of the output where resolve_index would resolve the text; nothing where it would throw.
// "b k, n k -> b n" of [2, 3] and [4, 3] is [2, 4], of [2, 3] and [4, 5] nothing.
std::optional<Shape> result_sizes(std::string_view text, std::span<const Shape> inputs);

}  // namespace tandem::term

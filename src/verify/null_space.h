// Integer solutions of small systems of linear equations.
#pragma once

#include <cstdint>
#include <vector>

namespace tandem::verify {

using Vector = std::vector<std::int64_t>;

// Returns a basis of the vectors x with row * x = 0 for every row: x + y - w = 0 -> [1, 0, 1], [0,
// 1, 1]. No vector has a common factor. The first columns are free if possible, and the last ones
// follow from them.
std::vector<Vector> compute_null_space(std::vector<Vector> rows, std::size_t columns);

}  // namespace tandem::verify

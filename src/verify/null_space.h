// Whole-number solutions of small systems of linear equations.
#pragma once

#include <cstdint>
#include <vector>

namespace tandem::verify {

using Vector = std::vector<std::int64_t>;

// A basis of the vectors x with row * x = 0 for every row; each without a common factor. What can
// be chosen freely are the first columns where possible: the last are computed from them.
std::vector<Vector> null_space(std::vector<Vector> rows, std::size_t columns);

}  // namespace tandem::verify

// Vectors of frequencies: positions times them go into sines and cosines, in rotary or sinusoidal
// positions. Files hold them as they hold weights, and nothing trains them.
#pragma once

#include <string_view>
#include <unordered_set>

#include "import/records.h"

namespace tandem::import {

// The initializers of at most one dimension larger than 1 that only sines and cosines see, through
// products with positions: what is computed from whole numbers, vectors and constants. A gain
// before the sine of a layer's result is no frequency.
std::unordered_set<std::string_view> find_frequencies(const Model& model);

}  // namespace tandem::import

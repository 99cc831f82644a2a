// Finds vectors of frequencies: rotary or sinusoidal position embeddings multiply them by positions
// and apply sine and cosine. Files store them like weights, but they are not trained.
#pragma once

#include <string_view>
#include <unordered_set>

#include "import/records.h"

namespace tandem::import {

// Returns the names of the initializers that only reach sines and cosines, through multiplications
// with positions. Each has at most one dimension larger than 1. A position is computed from
// integers, vectors and constants. A gain before the sine of a layer's result is no frequency.
std::unordered_set<std::string_view> find_frequencies(const ModelProto& model);

}  // namespace tandem::import

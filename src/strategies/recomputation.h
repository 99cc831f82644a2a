// The operators that are recomputed for the backward pass instead of being saved for it.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "strategies/problem.h"

namespace tandem::strategies {

inline constexpr std::array<std::string_view, 4> kRecomputations = {"none", "selective",
                                                                    "save_matmuls", "full"};

// Returns the spelling of kRecomputations: "products" from older plans becomes "save_matmuls".
// Other words are returned unchanged.
std::string_view canonicalize_recomputation(std::string_view what);

// Returns, by node, whether it is recomputed:
//   - "full": the insides of layers, which are identified by the numbers in node names.
//   - "save_matmuls": like "full", without fused attention and a layer's first, third, ... matmul.
//   - "selective": results that grow with the square of a sequence.
std::vector<bool> find_recomputed(std::string_view what, const Problem& problem);

}  // namespace tandem::strategies

// What recomputation makes again for the backward pass, in place of keeping it.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "strategies/problem.h"

namespace tandem::strategies {

inline constexpr std::array<std::string_view, 4> kRecomputations = {"none", "selective",
                                                                    "save_matmuls", "full"};

// Returns the spelling of kRecomputations: "products", as older plans have it, is "save_matmuls".
// Other words stay as they are.
std::string_view canonical_recomputation(std::string_view what);

// By node. Of "full" the insides of layers, as the numbers in names tell them apart; of
// "save_matmuls" these but for attention in one operator and every other matmul, the first of a
// layer included;
// of "selective" what grows with the square of a sequence.
std::vector<bool> recomputed(std::string_view what, const Problem& problem);

}  // namespace tandem::strategies

// What recomputation makes again for the backward pass, in place of keeping it.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "strategies/problem.h"

namespace tandem::strategies {

inline constexpr std::array<std::string_view, 4> kRecomputations = {"none", "selective", "products",
                                                                    "full"};

// By node. Of "full" the insides of layers, as the numbers in names tell them apart; of "products"
// these but for attention in one operator and every other product, the first of a layer included;
// of "selective" what grows with the square of a sequence.
std::vector<bool> recomputed(std::string_view what, const Problem& problem);

}  // namespace tandem::strategies

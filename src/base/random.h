// Random numbers that are functions of their place: the same element of the same tensor draws the
// same number in every plan, wherever its shard is.
#pragma once

#include <cstdint>

namespace tandem {

// Philox4x32-10 (Salmon et al., SC'11): the first 53 bits, as a number in [0, 1).
double uniform(std::uint64_t seed, std::uint64_t step, std::uint64_t origin, std::uint64_t index);

}  // namespace tandem

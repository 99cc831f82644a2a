// Random numbers that are functions of their position: an element of a tensor draws the same number
// in every plan, wherever its shard is.
#pragma once

#include <cstdint>

namespace tandem {

// Returns the first 53 bits of Philox4x32-10 (Salmon et al., SC'11) as a number in [0, 1).
double draw_uniform(std::uint64_t seed, std::uint64_t step, std::uint64_t origin,
                    std::uint64_t index);

}  // namespace tandem

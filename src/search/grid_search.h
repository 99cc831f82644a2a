// What the layout network has no states for, pipelines, recomputation, micro-batches and storage in
// parts, is searched over strategies: thousands of settings are estimated, a few are simulated.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/estimates.h"

namespace tandem::search {

// Estimates those settings that have an estimate.
std::vector<Evaluated> estimate_all(Estimates& estimates,
                                    const std::vector<strategies::Setting>& settings);

// The best `most` of them: those that fit first, the faster before the slower; then the smaller.
// Of those that come to the same time and memory,
// as fsdp and deepspeed:zero=3 do, there is the first.
std::vector<strategies::Setting> promising(const std::vector<Evaluated>& settings,
                                           std::size_t most);
// And beside them the best of some other numbers of stages, where that is not much slower: much
// that is alike may crowd it out.
std::vector<strategies::Setting> promising_of_each_depth(const std::vector<Evaluated>& settings,
                                                         std::size_t most);

}  // namespace tandem::search

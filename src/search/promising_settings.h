// Searches strategies with pipelines, recomputation, micro-batches and sharded storage, which the
// layout network has no states for. Thousands of settings are estimated, and a few are simulated.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/estimates.h"

namespace tandem::search {

// Returns whether the network has equal layers, so that steps of its strategies are estimated.
// Numbered layers are not always equal.
bool has_equal_layers(const Options& options);

// Returns the estimates of those settings that have one.
std::vector<Evaluated> estimate_all(Estimates& estimates,
                                    const std::vector<strategies::Setting>& settings);

// Returns the best `most` settings. Those that fit come first, by time; then the others, by memory.
// Of settings with equal time and memory, such as fsdp and deepspeed:zero=3, only the first is
// returned.
std::vector<strategies::Setting> choose_promising(const std::vector<Evaluated>& settings,
                                                  std::size_t most);
// Returns whether the settings have the same number of stages and the same tensor parallelism:
// layouts inside their stages then gain about the same.
bool have_equal_shapes(const strategies::Setting& a, const strategies::Setting& b);
// Returns the promising settings and the best ones of some other shapes, unless these are much
// slower. Many similar settings could otherwise crowd them out.
std::vector<strategies::Setting> choose_promising_of_each_shape(
    const std::vector<Evaluated>& settings, std::size_t most);

}  // namespace tandem::search

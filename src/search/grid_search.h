// What the layout network has no states for, pipelines, recomputation, micro-batches and storage in
// parts, is searched over strategies: thousands of settings are estimated, a few are simulated.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/estimates.h"

namespace tandem::search {

// Settings beside those of the baselines that trade time for memory or bandwidth for latency:
// memory_saving_settings and pipeline_settings (strategies/wide_grid.h).
std::vector<strategies::Setting> grid_settings(const strategies::Problem& problem);

// With more and fewer micro-batches: the pipelines among them with several pieces of the model on a
// stage and optimizer states in parts, the first of the others with less computed again.
std::vector<strategies::Setting> varied(const std::vector<strategies::Setting>& settings,
                                        std::int64_t batch);

// By setting, what is known of it before it is simulated; no point where there is no estimate.
struct Estimated {
  strategies::Setting setting;
  std::optional<Point> point;
  double bound = 0;  // of its step time, proved, in seconds; 0 where there is none
};
// What is known of what was simulated.
Point point_of(const Costed& costed);
// Of all of them, in their order.
std::vector<Estimated> estimate_all(Estimates& estimates,
                                    const std::vector<strategies::Setting>& settings);

// The best `most` of them: those that fit first, the faster before the slower; then the smaller.
// Settings without an estimate are not among them; of those that come to the same time and memory,
// as fsdp and deepspeed:zero=3 do, there is the first.
std::vector<strategies::Setting> promising(const std::vector<Estimated>& settings,
                                           std::size_t most);
// And beside them the best of some other numbers of stages, where that is not much slower: much
// that is alike may crowd it out.
std::vector<strategies::Setting> promising_of_each_depth(const std::vector<Estimated>& settings,
                                                         std::size_t most);

}  // namespace tandem::search

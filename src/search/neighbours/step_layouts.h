// Searches layouts for a strategy's step. Its stages, micro-batches, recomputation and weight
// storage stay. Each operator gets the cheapest layout on its stage's devices.
#pragma once

#include <vector>

#include "search/pool.h"
#include "strategies/setting.h"

namespace tandem::search {

// Returns candidates for the step that the strategy makes of options.network. Returns none if that
// is unset. Leaves out layouts that equal the strategy's own. Adds the number of cost tables
// computed to `products`.
std::vector<Candidate> lay_out_step(const strategies::Setting& setting,
                                    const strategies::Problem& problem, predict::CostModel& costs,
                                    const Options& options, std::size_t& products);

}  // namespace tandem::search

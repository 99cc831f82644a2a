// Searches layouts for a strategy's step. Its stages, micro-batches, recomputation and weight
// storage stay. Each operator gets the cheapest layout on its stage's devices.
//
// Example: pp=4,micro=8. A micro-batch's costs count 8 + 3 times, since the pipeline is filled and
// drained, and the results of 4 micro-batches are held at once.
#pragma once

#include <optional>
#include <vector>

#include "search/pool.h"
#include "strategies/setting.h"

namespace tandem::search {

// Returns the cost of the cheapest layouts of the step divided by that of the strategy's own, at
// most 1. If the layers are equal, three of them are enough to decide. Returns nullopt if they are
// not and the network is not small, or if it has no such micro-batch.
std::optional<double> compute_layout_cost_ratio(const strategies::Setting& setting,
                                                const strategies::Problem& problem,
                                                predict::CostModel& costs, const Options& options);

// Returns candidates for the step that the strategy makes of options.network. Returns none if that
// is unset. Leaves out layouts that equal the strategy's own. Adds the number of cost tables
// computed to `products`.
std::vector<Candidate> lay_out_step(const strategies::Setting& setting,
                                    const strategies::Problem& problem, predict::CostModel& costs,
                                    const Options& options, std::size_t& products);

}  // namespace tandem::search

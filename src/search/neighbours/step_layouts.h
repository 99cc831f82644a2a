// Layouts of their own for a strategy's step: its stages, micro-batches, recomputation and storage
// stay, and each operator is spread as is cheapest among a stage's devices.
#pragma once

#include <vector>

#include "search/pool.h"
#include "strategies/setting.h"

namespace tandem::search {

// Of a step that the strategy makes of options.network, none where there is none; those that lie as
// the strategy has them are left out. `products` counts the tables made.
std::vector<Candidate> lay_out_step(const strategies::Setting& setting,
                                    const strategies::Problem& problem, predict::CostModel& costs,
                                    const Options& options, std::size_t& products);

}  // namespace tandem::search

// Searches MAD-Max's grid (strategies/setting_groups.h): for every kind of layer, one sharding
// inside a node and one across nodes. A small grid is tried whole. A larger one is searched by
// coordinate descent: one kind of layer at a time, the others as in the best so far, until nothing
// improves.
#pragma once

#include <functional>
#include <vector>

#include "search/pool.h"
#include "search/promising_settings.h"

namespace tandem::search {

// Evaluates settings and returns the results of those that are possible.
using Try = std::function<std::vector<Evaluated>(const std::vector<strategies::Setting>&)>;

// Returns everything that was tried of the grid. Tries the whole grid if it has at most `whole`
// settings.
std::vector<Evaluated> try_shardings(const strategies::Problem& problem, std::size_t whole,
                                     const Try& attempt);

// Enters the grid's settings into the pool, for a network that cannot be estimated. Skips settings
// whose choices were seen before or that `may_win` rejects. Returns the evaluated settings.
std::vector<Evaluated> enter_shardings(
    CandidatePool& pool, const strategies::Problem& problem,
    const std::function<bool(const std::vector<plan::Choice>&)>& may_win);

}  // namespace tandem::search

// MAD-Max's grid, a sharding inside a node and across for every kind of layer
// (strategies/wide_grid.h), as candidates of the search: a small grid is tried whole, of a larger
// one a kind of layer at a time, the others as they are in the best so far, until none gets better.
#pragma once

#include <functional>
#include <vector>

#include "search/grid_search.h"
#include "search/pool.h"

namespace tandem::search {

// Evaluates settings and returns those for which that is possible.
using Try = std::function<std::vector<Evaluated>(const std::vector<strategies::Setting>&)>;

// All that was tried of the grid, which is tried whole where it has no more than `whole` settings.
std::vector<Evaluated> try_shardings(const strategies::Problem& problem, std::size_t whole,
                                     const Try& attempt);

// For a network that cannot be estimated: they enter the pool, those that come to the same
// choices once, and those that `may_win` leaves out not at all. What they came to.
std::vector<Evaluated> enter_shardings(
    CandidatePool& pool, const strategies::Problem& problem,
    const std::function<bool(const std::vector<plan::Choice>&)>& may_win);

}  // namespace tandem::search

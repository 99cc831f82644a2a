// Where memory is scarce: strategies that have no estimate, as pipelines of few layers and all of a
// network that cannot be folded, simulated from what needs least memory on.
#pragma once

#include <functional>
#include <vector>

#include "search/contest.h"
#include "search/grid_search.h"

namespace tandem::search {

// What a strategy's fullest rank holds, roughly: weights and optimizer states as they are stored,
// and results that are kept for the backward pass. Quick, to say which to simulate first.
Bytes roughly_needed(const strategies::Strategy& strategy, const strategies::Problem& problem,
                     const Contest& contest);

// These settings and, of the best of them, other numbers of micro-batches enter the contest; those
// that `may_win` leaves out do not, nor, of a large network or of very many micro-batches, what is
// behind the first few. What they came to.
std::vector<Estimated> enter_by_memory(
    Contest& contest, const strategies::Problem& problem,
    const std::vector<strategies::Setting>& settings,
    const std::function<bool(const std::vector<plan::Choice>&)>& may_win);

}  // namespace tandem::search

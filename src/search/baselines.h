// Chooses the settings of the baselines, the rows that a plan is compared with. Each row gets the
// best settings of its family that fit.
#pragma once

#include <functional>
#include <vector>

#include "search/neighbours/sharding_search.h"
#include "search/pool.h"

namespace tandem::search {

// Returns whether these choices may become the plan.
using MayWin = std::function<bool(const std::vector<plan::Choice>&)>;

// Replaces the rows of the pool's result, which have settings without micro-batches and
// recomputation. Each row gets the fastest settings of its family that fit. If none fits, it gets
// those that need the least memory. `known` are settings of all families that were estimated or
// simulated. `estimate` is empty if nothing can be estimated. Then a few settings of a family that
// does not fit are simulated.
void fit_baselines(CandidatePool& pool, const strategies::Problem& problem,
                   const std::vector<Evaluated>& known, const Try& estimate, const MayWin& may_win);

}  // namespace tandem::search

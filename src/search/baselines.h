// The rows that a plan is compared with: each family of strategies at its best settings that fit.
#pragma once

#include <functional>
#include <vector>

#include "search/neighbours/sharing_search.h"
#include "search/pool.h"

namespace tandem::search {

// Which choices may become the plan.
using MayWin = std::function<bool(const std::vector<plan::Choice>&)>;

// Replaces the rows of the pool's result, which are of settings without micro-batches and
// recomputation, by each family's fastest settings that fit; where none fits, by those that need
// least memory. `known` are settings of all families that were estimated or simulated. `estimate`
// is empty where nothing can be estimated: a few settings of a family that does not fit are
// simulated then.
void fit_baselines(CandidatePool& pool, const strategies::Problem& problem,
                   const std::vector<Evaluated>& known, const Try& estimate, const MayWin& may_win);

}  // namespace tandem::search

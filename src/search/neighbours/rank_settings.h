// Gives each rank of a pipeline its own setting: the fastest one that fits there. Ranks also get as
// many operators as they have time for. Under 1F1B the first rank holds activations of the most
// micro-batches. So other ranks need not recompute as much, or can use smaller tensor parallel
// groups. A step without a pipeline is one rank, which recomputes no more than necessary.
//
// Example: megatron:pp=4,recompute=full fits and megatron:pp=4 needs too much memory on ranks 0 and
// 1. Then rank 0 recomputes all of its layers, rank 1 some, ranks 2 and 3 none, and these get
// layers from rank 0.
#pragma once

#include <vector>

#include "search/baselines.h"
#include "search/neighbours/sharding_search.h"
#include "search/pool.h"

namespace tandem::search {

// Enters mixes that start from the best settings in `evaluated` that fit. `estimate` evaluates
// other settings of the same problem.
void mix_settings_by_rank(CandidatePool& pool, const strategies::Problem& problem,
                          const std::vector<Evaluated>& evaluated, const Try& estimate,
                          const MayWin& may_win);

}  // namespace tandem::search

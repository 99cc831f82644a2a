// Settings by rank: each rank of a pipeline takes the fastest setting that fits there, and as many
// operators as it has time for. Under 1F1B the first rank holds activations of the most
// micro-batches, so that others need not recompute as much, or can do with fewer tensor parallel
// devices. A step without a pipeline is one rank, which recomputes no more than it has to.
//
// Example: megatron:pp=4,recompute=full fits and megatron:pp=4 needs too much memory on ranks 0 and
// 1. Then rank 0 recomputes all of its layers, rank 1 some, ranks 2 and 3 none, and these get
// layers from rank 0.
#pragma once

#include <vector>

#include "search/baselines.h"
#include "search/neighbours/sharing_search.h"
#include "search/pool.h"

namespace tandem::search {

// Enters mixes that start from the best of `evaluated`, settings of the model that fit. `estimate`
// says what others come to.
void mix_settings_by_rank(CandidatePool& pool, const strategies::Problem& problem,
                          const std::vector<Evaluated>& evaluated, const Try& estimate,
                          const MayWin& may_win);

}  // namespace tandem::search

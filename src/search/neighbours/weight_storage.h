// Searches where weights are stored between their uses. Strategies store all weights in the same
// way, and cost tables do not see whether a gather overlaps other work. A weight that is used twice
// or looked up in is updated late and needed early. It may be better to replicate it while the
// others are sharded.
#pragma once

#include <vector>

#include "search/pool.h"

namespace tandem::search {

// Returns, by weight, the layout that its first reader needs. Other nodes, and weights that nothing
// reads, get an empty layout.
std::vector<machine::Layout> find_used_layouts(const strategies::Problem& problem,
                                               const std::vector<plan::Choice>& choices);

// Enters variants of the plan that shard weights over every set of levels. Weights with several
// readers and embedding tables stay as they are used. Further variants keep gathered weights for
// the backward pass. Does nothing for plans with several passes.
//   2 nodes of 4 GPUs: shards over the 2 nodes, over the 4 GPUs of each node, and over all 8
void enter_storage_variants(CandidatePool& pool, const Candidate& plan);

}  // namespace tandem::search

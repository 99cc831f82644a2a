// Where weights lie between their uses. Strategies store all alike, and cost tables do not tell
// whether a gather hides behind something: what is used twice or looked up in comes late and is
// needed early, so that it may be better kept as it is used while the others are in parts.
#pragma once

#include <vector>

#include "search/pool.h"

namespace tandem::search {

// By weight, the layout in which its first reader wants it; of other nodes, and of weights that
// nothing reads, an empty one.
std::vector<machine::Layout> used_layouts(const strategies::Problem& problem,
                                          const std::vector<plan::Choice>& choices);

// The plan enters with the weights that have one reader, which is no look-up, in parts over every
// set of levels, and the others as they are used; and with what is gathered kept for the backward
// pass. Not if it is for several passes.
void store_otherwise(CandidatePool& pool, const Candidate& plan);

}  // namespace tandem::search

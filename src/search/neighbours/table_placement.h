// Places embedding tables side by side, each whole on devices of its own. Cost tables assume that
// operators run one after another, so they favor sharding each embedding table over all devices.
// With several embedding tables, each of as many devices may hold a whole one. Only a simulation
// shows how many to keep whole and how many to shard. This search moves all of them together, then
// one at a time, while the step gets shorter.
//
// Example: tables of 8, 2 and 1 GB on 2 devices. If all are whole, one device holds 8 GB and the
// other 3 GB. If the first one is sharded over both, they hold 4 + 2 and 4 + 1 GB.
#pragma once

#include <vector>

#include "search/pool.h"

namespace tandem::search {

// Places the embedding tables of `plans`, of one graph, the best first. Starts from the first plan,
// then combines the result with the other operators' layouts of the other plans.
void place_tables(CandidatePool& pool, const std::vector<Candidate>& plans);

// Returns whether place_tables would place embedding tables of this plan. It does so if there
// are several and they hold most of the weights.
bool has_tables_to_place(CandidatePool& pool, const Candidate& plan);

// Enters `plans`, of one graph, with embedding tables placed as in `other`. `other` may be of
// another graph.
void place_tables_like(CandidatePool& pool, const std::vector<Candidate>& plans,
                       const Candidate& other);

}  // namespace tandem::search

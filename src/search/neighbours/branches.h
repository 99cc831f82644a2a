// Places the branches of a network on devices of their own. A network may consist of parts that
// only meet at its end, such as towers that are concatenated. A branch on its own devices needs no
// sum over the other devices. Cost tables assume that operators run one after another, so they
// favor spreading each operator over all devices. Only a simulation shows how many branches should
// share how many devices. This search moves all branches together, then one at a time, while the
// step gets shorter.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "search/pool.h"

namespace tandem::search {

// The parts of a network that lie before one operator and meet only there.
struct Branches {
  std::vector<std::vector<graph::NodeId>> nodes;  // by branch; only branches with weights
  double share = 0;                               // share of all weights that they hold
};
// Returns the branches before the operator whose branches, without the largest, hold the most
// weights. Returns no branches, or at least two.
//   concat of towers with 30 and 20 MB of weights, then 50 MB: both towers, share (30 + 20) / 100
Branches find_branches(const graph::Graph& graph);

// Tries other placements of branches for `plans` that run the whole batch in one pass. The plans
// are of one graph, the best first. Returns whether the branches hold enough of the weights to be
// placed. If so, the minimum of the cost tables is no longer a lower bound of the step time.
bool place_branches(CandidatePool& pool, const std::vector<Candidate>& plans);

}  // namespace tandem::search

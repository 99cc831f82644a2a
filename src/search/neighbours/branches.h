// Branches side by side. Where a network is several parts that only meet at its end, as towers that
// are concatenated, each may have devices of its own: nothing is summed over the others then. Cost
// tables let operators take turns, so that all devices seem best for each; only a simulation can
// say how many branches lie on how few devices, and here they change, all alike or one after
// another, as long as the step becomes shorter.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "search/pool.h"

namespace tandem::search {

// What lies before one operator and meets there alone.
struct Branches {
  std::vector<std::vector<graph::NodeId>> nodes;  // by branch, of those that have weights
  double share = 0;                               // that they have of all weights
};
// Of the operator before which branches but the largest have most: none, or at least two.
Branches branches_of(const graph::Graph& graph);

// Of these plans, of one graph, the best first, those for one pass: their branches elsewhere, where
// these are most of the weights. False where there are none; else no minimum of cost tables bounds
// what layouts may come to.
bool place_branches(CandidatePool& pool, const std::vector<Candidate>& plans);

}  // namespace tandem::search

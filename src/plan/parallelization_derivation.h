// The parallelization of a model's graph as a derivation by shipped and proved rules. Rules first
// partition each operator alone, one factor at a time. Between two operators, a tensor is then made
// whole and partitioned again. Rules about parallelization operators alone turn that chain into the
// plan's chain.
//
// Operators with equal steps share one derivation with several places, and so do equal paths
// between operators. Places that no rules lead to are listed. Their correctness is checked by
// values only.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "machine/digits.h"
#include "plan/plan.h"

namespace tandem::plan {

// Returns the number of steps, counted at every place.
std::size_t count_steps(const Parallelization& of);

// Returns the steps that lead to `mapped`.
Parallelization find_parallelization(const MappedGraph& mapped, const machine::Digits& digits);

// The result of replaying a parallelization.
struct Replayed {
  struct ReplayCoverage {
    std::size_t places = 0;  // places that the steps lead to
    std::size_t steps = 0;   // steps at all of them
    std::set<std::string> rules = {};
    std::vector<std::string> without = {};  // places without steps
  };
  ReplayCoverage cuts = {};
  ReplayCoverage paths = {};
};

// Replays `steps` on the graph and returns what they cover. Throws UserError("derivation", place,
// ...) if they do not lead to the graph, or if a partitioned place has none.
Replayed replay(const graph::Graph& pcg, const Parallelization& steps);

}  // namespace tandem::plan

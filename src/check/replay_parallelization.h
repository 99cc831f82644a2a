// Replays the steps that make a plan's graph parallel (plan/parallelization_derivation.h).
#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/chain.h"

namespace tandem::check {

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
Replayed replay_parallelization(const graph::Graph& pcg, const plan::Parallelization& steps);

// Returns the chain that `steps` make of `chain`, applied to a tensor of type `type`. Throws
// UserError("derivation") if a step does not apply, or if its rule is not a shipped and proved one.
plan::Chain replay_chain(const TensorType& type, const plan::Chain& chain,
                         const plan::RuleSteps& steps);

}  // namespace tandem::check

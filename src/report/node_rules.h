// Which rule of a plan's derivation made which node.
#pragma once

#include <string>
#include <unordered_map>

#include "plan/plan.h"

namespace tandem::report {

struct MadeBy {
  std::string rule;
  std::size_t step = 0;  // of the derivation, from 1
};

// By the names that nodes have in the plan. Replays the derivation on `model`, which it starts
// from; nothing where it does not lead from there to the plan's graph.
std::unordered_map<std::string, MadeBy> node_rules(const plan::Plan& plan,
                                                   const graph::Graph& model);

}  // namespace tandem::report

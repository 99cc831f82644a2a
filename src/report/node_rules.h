// Finds the rewrite rule that created each node of a plan's graph.
#pragma once

#include <string>
#include <unordered_map>

#include "plan/plan.h"

namespace tandem::report {

struct NodeRule {
  std::string rule;
  std::size_t step = 0;  // step of the derivation, from 1
};

// Returns the rule of each node that a rewrite created, by the node's name in the plan. Replays the
// derivation on `model`, its initial graph. Returns no rules if the replay fails.
std::unordered_map<std::string, NodeRule> find_node_rules(const plan::Plan& plan,
                                                          const graph::Graph& model);

}  // namespace tandem::report

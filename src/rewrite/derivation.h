// Derivations: how rules rewrite one graph to another, step by step. A step names the rule, the
// nodes where it applies, and the graph's hash before and after. It identifies these nodes, the
// outputs of the rule's source, by the hashes of what they compute. `replay` checks a derivation
// with independent code: it is slow, works on whole graphs, and shares nothing with the matcher
// that found the derivation.
#pragma once

#include <functional>
#include <string>

#include "graph/graph.h"
#include "rewrite/derivation_step.h"
#include "rewrite/rule_set.h"

namespace tandem::rewrite {

// Returns the step for the rewrite of `match` that turned `before` into `after`.
DerivationStep make_derivation_step(const RuleSet& rules, const Match& match, const Draft& before,
                                    const Draft& after);

// Returns the rule of a name, or null if there is none.
using FindRule = std::function<const Rule*(const std::string&)>;
// Returns a function that finds rules in `rules`, which must outlive it.
FindRule make_rule_finder(const std::vector<Rule>& rules);

// Returns the graph that `derivation` makes of `graph`. Throws UserError("derivation", "step 3
// (fuse-relu)", ...) if a step names an unknown rule or node, does not apply, or has other hashes.
graph::Graph replay(const graph::Graph& graph, const Derivation& derivation, const FindRule& find);

// Returns the graph after one step. Does not check the step's hashes of whole graphs.
graph::Graph apply_step(const graph::Graph& graph, const DerivationStep& step,
                        const FindRule& find);

}  // namespace tandem::rewrite

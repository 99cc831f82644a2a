// Derivations: how rules turn one graph into another, step by step. A step names the rule, where
// its source's outputs were, by the hashes of what those nodes compute, and the graph's hash before
// and after. `replay` follows one with code of its own: slow, on whole graphs, sharing nothing with
// the matcher that found it.
#pragma once

#include <functional>
#include <string>

#include "graph/graph.h"
#include "rewrite/rule_set.h"
#include "rewrite/step.h"

namespace tandem::rewrite {

// Of the rewrite that turned `before` into `after`.
Step step_of(const RuleSet& rules, const Match& match, const Draft& before, const Draft& after);

// The rule of a name; null where there is none.
using FindRule = std::function<const Rule*(const std::string&)>;
// Among these, which must outlive it.
FindRule rules_by_name(const std::vector<Rule>& rules);

// What the derivation makes of the graph. Throws UserError("derivation", "step 3 (fuse-relu)", ...)
// where a step names no rule or no place, does not apply, or has other hashes.
graph::Graph replay(const graph::Graph& graph, const Derivation& derivation, const FindRule& find);

// One step of it, whose hashes of whole graphs are not looked at.
graph::Graph apply_step(const graph::Graph& graph, const Step& step, const FindRule& find);

}  // namespace tandem::rewrite

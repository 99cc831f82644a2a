#include "report/node_rules.h"

#include <unordered_set>

#include "base/text.h"
#include "graph/hashes.h"
#include "rewrite/derivation.h"
#include "rewrite/rule_text.h"

namespace tandem::report {

namespace {

std::unordered_set<std::string> list_names(const graph::Graph& graph) {
  std::unordered_set<std::string> out;
  for (auto id : graph.ids()) out.insert(graph.node(id).name);
  return out;
}

}  // namespace

std::unordered_map<std::string, NodeRule> find_node_rules(const plan::Plan& plan,
                                                          const graph::Graph& model) {
  if (plan.derivation.empty()) return {};
  std::unordered_map<std::string, NodeRule> made;  // by name in the replayed graph
  auto derived = model;
  try {
    const auto rules = rewrite::parse_rules(join(plan.rules, "\n"), "rules");
    for (std::size_t s = 0; s < plan.derivation.size(); ++s) {
      const auto& step = plan.derivation[s];
      // A replayed step keeps the names of unchanged nodes.
      const auto before = list_names(derived);
      derived = rewrite::replay(derived, {step}, rewrite::make_rule_finder(rules));
      for (const auto& name : list_names(derived)) {
        if (!before.contains(name)) made[name] = {step.rule, s + 1};
      }
    }
  } catch (const UserError&) {
    return {};  // `tandem check` reports the error
  }
  std::unordered_map<Hash, NodeRule> by_hash;
  const auto hashes = graph::hash_nodes(derived, graph::HashKind::kIdentity);
  for (auto id : derived.ids()) {
    const auto at = made.find(derived.node(id).name);
    if (at != made.end()) by_hash[hashes[id.index()]] = at->second;
  }
  std::unordered_map<std::string, NodeRule> out;
  const auto whole = erase_parallelism(plan.mapped.pcg);
  const auto own = graph::hash_nodes(whole, graph::HashKind::kIdentity);
  for (auto id : whole.ids()) {
    const auto at = by_hash.find(own[id.index()]);
    if (at != by_hash.end()) out[whole.node(id).name] = at->second;
  }
  return out;
}

}  // namespace tandem::report

#include "cli/derivers.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "cli/rules.h"
#include "graph/graph.h"
#include "ops/attributes.h"
#include "ops/registry.h"
#include "verify/evaluate.h"
#include "verify/instances.h"
#include "verify/rule_typer.h"

namespace tandem::cli {

namespace {

// Returns one side of a rule as a graph.
graph::Graph build_side_graph(const rewrite::Rule& rule, const verify::TypedSide& side) {
  graph::GraphBuilder builder("rule");
  std::vector<graph::NodeId> variables(rule.tensors.size());
  for (const auto& node : side.nodes) {
    if (node.op) continue;
    // Indices below 2 are valid for an embedding table of any size above 1.
    const std::int64_t below = is_integer(node.type.dtype) ? 2 : 0;
    variables[node.variable] =
        builder.input(rule.tensors[node.variable], node.type.shape, node.type.dtype, below);
  }
  return builder.finish(verify::add_side(builder, side, variables));
}

// Returns an instance of the rule whose sizes differ, so that no two are equal by chance; nullopt
// if no pattern of sizes fits both sides.
std::optional<verify::Instance> find_plain_instance(const rewrite::Rule& rule) {
  const auto patterns = verify::find_patterns(rule);
  for (const auto& pattern : patterns.all) {
    auto instance = verify::find_generic_instance(rule, pattern, 1);
    if (!instance) instance = pattern.base;
    if (verify::check_fit(rule, *instance) == verify::Fit::kBoth) return instance;
  }
  return std::nullopt;
}

}  // namespace

Derivers::Derivers(const std::vector<std::string>& files) {
  if (files.empty()) {
    sets_.emplace_back(rewrite::add_reversals(rewrite::list_usable_rules()));
    sets_.emplace_back(rewrite::add_reversals(rewrite::list_all_rules()));
    return;
  }
  std::vector<rewrite::Rule> rules;
  for (const auto& path : files) {
    std::ranges::move(read_rules(path).rules, std::back_inserter(rules));
  }
  sets_.emplace_back(rewrite::add_reversals(rules));
}

Derivers::DerivationResult Derivers::derive(const graph::Graph& from, const graph::Graph& to,
                                            const rewrite::DeriveLimits& limits) {
  // All sets get a short search first: one may find at once what another misses in a long search.
  constexpr std::size_t kFewGraphs = 2000;
  DerivationResult out;
  for (const auto graphs : {std::min(kFewGraphs, limits.graphs), limits.graphs}) {
    bool is_complete = true;
    for (auto& set : sets_) {
      const auto looked_at = out.derived.graphs;
      out = {set.derive(from, to, {.graphs = graphs, .steps = limits.steps}), &set.rules()};
      is_complete = is_complete && out.derived.is_complete;
      out.derived.graphs += looked_at;
      if (out.derived.is_found) return out;
    }
    if (is_complete || graphs == limits.graphs) break;
  }
  return out;
}

std::optional<std::size_t> count_steps_to_derive(const rewrite::Rule& rule, Derivers& derivers,
                                                 const rewrite::DeriveLimits& limits) {
  const auto instance = find_plain_instance(rule);
  if (!instance) return std::nullopt;
  const auto source = verify::type_side(rule.source, *instance);
  const auto target = verify::type_side(rule.target, *instance);
  if (!source || !target) return std::nullopt;
  try {
    const auto found =
        derivers.derive(build_side_graph(rule, *source), build_side_graph(rule, *target), limits)
            .derived;
    return found.is_found ? std::optional(found.length()) : std::nullopt;
  } catch (const UserError&) {
    return std::nullopt;  // a type that no graph input can have
  }
}

}  // namespace tandem::cli

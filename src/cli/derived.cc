#include "cli/derived.h"

#include "base/error.h"
#include "graph/graph.h"
#include "ops/attributes.h"
#include "ops/registry.h"
#include "verify/evaluate.h"
#include "verify/instances.h"

namespace tandem::cli {

namespace {

graph::Graph graph_of(const rewrite::Rule& rule, const verify::TypedSide& side) {
  graph::GraphBuilder builder("rule");
  std::vector<graph::NodeId> variables(rule.tensors.size());
  for (const auto& node : side.nodes) {
    if (node.op) continue;
    // An index is one into a table of any size.
    const std::int64_t below = is_integer(node.type.dtype) ? 2 : 0;
    variables[node.variable] =
        builder.input(rule.tensors[node.variable], node.type.shape, node.type.dtype, below);
  }
  return builder.finish(verify::add_side(builder, side, variables));
}

// One whose sizes differ, so that no two are equal by chance.
std::optional<verify::Instance> plain_instance(const rewrite::Rule& rule) {
  const auto patterns = verify::find_patterns(rule);
  for (const auto& pattern : patterns.all) {
    auto instance = verify::generic_instance(rule, pattern, 1);
    if (!instance) instance = pattern.base;
    if (verify::fit_of(rule, *instance) == verify::Fit::kBoth) return instance;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> steps_to_derive(const rewrite::Rule& rule, rewrite::Deriver& deriver,
                                           const rewrite::DeriveLimits& limits) {
  const auto instance = plain_instance(rule);
  if (!instance) return std::nullopt;
  const auto source = verify::type_side(rule.source, *instance);
  const auto target = verify::type_side(rule.target, *instance);
  if (!source || !target) return std::nullopt;
  try {
    const auto found = deriver.derive(graph_of(rule, *source), graph_of(rule, *target), limits);
    return found.is_found ? std::optional(found.length()) : std::nullopt;
  } catch (const UserError&) {
    return std::nullopt;  // a type that no input has
  }
}

}  // namespace tandem::cli

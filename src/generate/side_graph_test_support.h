// Converts a side of a generated rule to a graph, for tests that compare what it computes.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "generate/generated_rule.h"
#include "graph/graph.h"
#include "ops/registry.h"

namespace tandem::generate {

// Returns `side` as a graph with the types and values of `assignment`. Throws UserError if it is
// not legal.
inline graph::Graph make_graph(const rewrite::Side& side, const Assignment& assignment) {
  constexpr std::int64_t kUsualBelow = 4;
  graph::GraphBuilder builder("side");
  std::vector<const TensorType*> types;
  std::vector<graph::NodeId> sources;
  for (std::size_t t = 0; t < assignment.tensors.size(); ++t) {
    const auto& type = assignment.tensors[t];
    const auto below = t < assignment.below.size() ? assignment.below[t] : kUsualBelow;
    sources.push_back(builder.input("in" + std::to_string(t), type.shape, type.dtype,
                                    is_integer(type.dtype) ? below : 0));
    types.push_back(&type);
  }
  std::vector<graph::NodeId> nodes;
  for (const auto& node : side.nodes) {
    if (node.is_variable()) {
      nodes.push_back(sources[node.variable]);
      continue;
    }
    auto literal = node;
    for (auto& a : literal.attributes) {
      const auto value = rewrite::evaluate(a, {types, assignment.symbols});
      if (!value) throw UserError("rule", "", "an attribute has no value");
      a = {.literal = *value};
    }
    std::vector<graph::NodeId> inputs;
    for (auto i : node.inputs) inputs.push_back(nodes[i]);
    nodes.push_back(builder.add(make_operator(literal), inputs));
  }
  std::vector<graph::NodeId> outputs;
  for (auto o : side.outputs) outputs.push_back(nodes[o]);
  return builder.finish(std::move(outputs));
}

}  // namespace tandem::generate

#include "graph/hashes.h"

#include "ops/registry.h"

namespace tandem::graph {

namespace {

// Returns whether a node is identified by name: inputs and weights are, a constant is its
// attributes.
bool is_named(const Node& node) {
  return node.op.role() == ops::Role::kSource && !node.op.is(ops::kConstant);
}

// Numbers inputs and weights by first use, walking operands left to right from the outputs; 0 means
// unused.
std::vector<std::uint32_t> number_sources(const Graph& graph) {
  std::vector<std::uint32_t> number(graph.size());
  std::vector<bool> seen(graph.size());
  std::uint32_t next = 1;
  std::vector<NodeId> stack(graph.outputs().rbegin(), graph.outputs().rend());
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    if (seen[id.index()]) continue;
    seen[id.index()] = true;
    if (is_named(graph.node(id))) number[id.index()] = next++;
    const auto inputs = graph.inputs(id);
    stack.insert(stack.end(), inputs.rbegin(), inputs.rend());
  }
  return number;
}

}  // namespace

std::vector<Hash> hash_nodes(const Graph& graph, HashKind kind) {
  const bool by_name = kind == HashKind::kIdentity;
  const auto numbers = by_name ? std::vector<std::uint32_t>() : number_sources(graph);
  std::vector<Hash> out(graph.size());
  const auto hash_of = [&](NodeId id) { return out[id.index()]; };
  for (auto id : graph.ids()) {
    const Node& node = graph.node(id);
    out[id.index()] = is_named(node) ? hash_combine(node.op.hash(), by_name ? hash_text(node.name)
                                                                            : numbers[id.index()])
                                     : hash_node(node.op.hash(), graph.inputs(id), hash_of);
  }
  return out;
}

Hash hash_graph(const Graph& graph, HashKind kind) {
  const auto hashes = hash_nodes(graph, kind);
  return hash_outputs(graph.outputs(), [&](NodeId id) { return hashes[id.index()]; });
}

}  // namespace tandem::graph

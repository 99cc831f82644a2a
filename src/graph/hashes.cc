#include "graph/hashes.h"

namespace tandem::graph {

namespace {

// Sources numbered by first use, walking operands left to right from the outputs; 0 = unused.
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
    if (graph.node(id).op.role() == ops::Role::kSource) number[id.index()] = next++;
    const auto inputs = graph.inputs(id);
    stack.insert(stack.end(), inputs.rbegin(), inputs.rend());
  }
  return number;
}

}  // namespace

Hash hash_graph(const Graph& graph, HashKind kind) {
  const bool by_name = kind == HashKind::kIdentity;
  const auto numbers = by_name ? std::vector<std::uint32_t>() : number_sources(graph);
  std::vector<Hash> hashes(graph.size());
  for (auto id : graph.ids()) {
    const Node& node = graph.node(id);
    Hash h = node.op.hash();
    if (node.op.role() == ops::Role::kSource) {
      h = hash_combine(h, by_name ? hash_text(node.name) : numbers[id.index()]);
    }
    for (auto i : graph.inputs(id)) h = hash_combine(h, hashes[i.index()]);
    hashes[id.index()] = h;
  }
  Hash out = hash_text("graph");
  for (auto o : graph.outputs()) out = hash_combine(out, hashes[o.index()]);
  return out;
}

}  // namespace tandem::graph

#include "graph/hashes.h"

#include "ops/registry.h"

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
    const auto& op = graph.node(id).op;
    if (op.role() == ops::Role::kSource && !op.is(ops::kConstant)) number[id.index()] = next++;
    const auto inputs = graph.inputs(id);
    stack.insert(stack.end(), inputs.rbegin(), inputs.rend());
  }
  return number;
}

}  // namespace

std::vector<Hash> node_hashes(const Graph& graph, HashKind kind) {
  const bool by_name = kind == HashKind::kIdentity;
  const auto numbers = by_name ? std::vector<std::uint32_t>() : number_sources(graph);
  std::vector<Hash> out(graph.size());
  std::vector<Hash> inputs;
  for (auto id : graph.ids()) {
    const Node& node = graph.node(id);
    inputs.clear();
    // A constant is what its attributes say, under whatever name.
    if (node.op.role() == ops::Role::kSource && !node.op.is(ops::kConstant)) {
      inputs.push_back(by_name ? hash_text(node.name) : numbers[id.index()]);
    }
    for (auto i : graph.inputs(id)) inputs.push_back(out[i.index()]);
    out[id.index()] = node_hash(node.op, inputs);
  }
  return out;
}

Hash hash_graph(const Graph& graph, HashKind kind) {
  const auto hashes = node_hashes(graph, kind);
  std::vector<Hash> outputs;
  outputs.reserve(graph.outputs().size());
  for (auto o : graph.outputs()) outputs.push_back(hashes[o.index()]);
  return outputs_hash(outputs);
}

}  // namespace tandem::graph

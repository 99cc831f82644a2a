#include "check/graph_difference.h"

#include <fmt/format.h>

#include <unordered_map>

#include "base/text.h"

namespace tandem::check {

namespace {

using graph::Graph;
using graph::NodeId;

// Returns a node as text: "linear(%x, %w1) : [8, 64] fp32".
std::string describe_node(const Graph& graph, NodeId id) {
  const auto& node = graph.node(id);
  std::vector<std::string> inputs;
  for (auto i : graph.inputs(id)) inputs.push_back("%" + graph.node(i).name);
  const auto& attributes = node.op.attribute_text();
  return fmt::format("{}({}){}{} : {}", node.op.name(), join(inputs, ", "),
                     attributes.empty() ? "" : " ", attributes, to_text(node.type.shape));
}

std::unordered_map<std::string, NodeId> index_nodes_by_name(const Graph& graph) {
  std::unordered_map<std::string, NodeId> out;
  for (auto id : graph.ids()) out.emplace(graph.node(id).name, id);
  return out;
}

}  // namespace

std::optional<Difference> find_difference(const Graph& model, const Graph& erasure) {
  if (model.identity_hash() == erasure.identity_hash()) return std::nullopt;
  const auto planned = index_nodes_by_name(erasure);
  for (auto id : model.ids()) {
    const auto& name = model.node(id).name;
    const auto at = planned.find(name);
    if (at == planned.end()) return Difference{name, "is in the model and not in the plan"};
    const auto expected = describe_node(model, id);
    const auto actual = describe_node(erasure, at->second);
    if (actual != expected) {
      return Difference{name,
                        fmt::format("is {} in the model and {} in the plan", expected, actual)};
    }
  }
  const auto known = index_nodes_by_name(model);
  for (auto id : erasure.ids()) {
    const auto& name = erasure.node(id).name;
    if (!known.contains(name)) return Difference{name, "is in the plan and not in the model"};
  }
  return Difference{erasure.node(erasure.outputs()[0]).name,
                    "is not what the model computes: its outputs are others"};
}

}  // namespace tandem::check

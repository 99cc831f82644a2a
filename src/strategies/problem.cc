#include "strategies/problem.h"

#include "machine/node_layout.h"
#include "ops/registry.h"

namespace tandem::strategies {

Problem::Problem(const graph::Graph& m, const machine::Digits& d)
    : model(m),
      digits(d),
      nodes(analyze(m)),
      layers(find_layer_kinds(m)),
      has_own_weights(m.size()) {
  for (auto id : m.ids()) {
    has_own_weights[id.index()] =
        std::ranges::any_of(m.inputs(id), [&](auto i) { return is_weight(m.node(i)); });
  }
}

Bytes Problem::weight_bytes(graph::NodeId id) const {
  Bytes sum;
  for (auto i : model.inputs(id)) {
    if (is_weight(model.node(i))) sum += model.node(i).type.whole_bytes();
  }
  return sum;
}

bool Problem::has_sequence() const {
  return has(LayerKind::kTransformer) && std::ranges::any_of(nodes, [](const auto& node) {
           return find_sequence_factor(node).has_value();
         });
}

std::optional<ops::FactorId> find_sequence_factor(const AnalyzedNode& node) {
  std::optional<ops::FactorId> summed;
  for (ops::FactorId f = 0; f < node.kinds.size(); ++f) {
    if (node.kinds[f] != FactorKind::kSequence) continue;
    if (!machine::may_cut_in_shards(node.signature, f) || machine::is_minor(node.signature, f))
      continue;
    if (node.signature.map.find_output_dim(f) >= 0) return f;
    if (!summed) summed = f;
  }
  return summed;
}

std::optional<std::int64_t> find_batch_size(const Problem& problem) {
  for (const auto& node : problem.nodes) {
    if (const auto batch = node.batch()) return node.signature.map.factors[*batch].size;
  }
  return std::nullopt;
}

bool sends_tokens(const graph::Node& node) {
  return node.op.is(ops::kMoeDispatch) || node.op.is(ops::kMoeCombine);
}

}  // namespace tandem::strategies

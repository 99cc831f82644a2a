#include "strategies/model_figures.h"

#include <algorithm>
#include <bit>

#include "models/model.h"

namespace tandem::strategies {

namespace {

// Returns the bytes of the rows that an operator reads from an embedding table; 0 if it reads none.
Bytes count_lookup_bytes(const graph::Graph& model, graph::NodeId id) {
  const auto mask = model.node(id).op.spec().index_inputs;
  const auto inputs = model.inputs(id);
  const auto table = std::ranges::find_if(inputs, [&](auto i) { return is_weight(model.node(i)); });
  if (mask == 0 || table == inputs.end()) return {};
  const auto& indices = model.node(inputs[static_cast<std::size_t>(std::countr_zero(mask))]).type;
  const auto& type = model.node(*table).type;
  const auto& sizes = type.shape.sizes;
  return static_cast<double>(indices.shape.sizes.count() * sizes[sizes.rank() - 1]) *
         get_element_size(type.dtype);
}

}  // namespace

std::int64_t count_samples(const graph::Graph& model) {
  for (auto id : model.ids()) {
    const auto& shape = model.node(id).type.shape;
    if (is_input(model.node(id)) && shape.rank() > 0) return shape.sizes[0];
  }
  return 1;
}

ModelFigures compute_figures(const graph::Graph& model, std::int64_t samples) {
  ModelFigures out{.parameters = {}, .samples = samples};
  const auto kinds = find_layer_kinds(model);
  Bytes lookups;
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    if (is_weight(node)) out.parameters[kinds[id.index()]] += node.type.shape.sizes.count();
    lookups += count_lookup_bytes(model, id);
  }
  out.tokens = count_tokens(model) / samples;
  out.flops = models::count_forward_flops(model) / static_cast<double>(samples);
  out.lookups = lookups / static_cast<double>(samples);
  return out;
}

}  // namespace tandem::strategies

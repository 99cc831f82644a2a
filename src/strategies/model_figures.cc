#include "strategies/model_figures.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "models/model.h"

namespace tandem::strategies {

namespace {

// Indices into a table of weights, as an operator reads them.
struct Lookup {
  std::int64_t indices = 0;
  Bytes bytes;  // of the rows
};

std::optional<Lookup> lookup_of(const graph::Graph& model, graph::NodeId id) {
  const auto mask = model.node(id).op.spec().index_inputs;
  const auto inputs = model.inputs(id);
  const auto table = std::ranges::find_if(inputs, [&](auto i) { return is_weight(model.node(i)); });
  if (mask == 0 || table == inputs.end()) return std::nullopt;
  const auto& indices = model.node(inputs[static_cast<std::size_t>(std::countr_zero(mask))]).type;
  const auto& type = model.node(*table).type;
  const auto& sizes = type.shape.sizes;
  const auto count = indices.shape.sizes.count();
  return Lookup{count, static_cast<double>(count * sizes[sizes.rank() - 1]) * size_of(type.dtype)};
}

}  // namespace

std::int64_t samples_of(const graph::Graph& model) {
  for (auto id : model.ids()) {
    const auto& shape = model.node(id).type.shape;
    if (is_input(model.node(id)) && shape.rank() > 0) return shape.sizes[0];
  }
  return 1;
}

ModelFigures figures_of(const graph::Graph& model, std::int64_t samples) {
  ModelFigures out{.parameters = {}, .samples = samples};
  const auto kinds = layer_kinds(model);
  Bytes lookups;
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    const auto kind = kinds[id.index()];
    if (is_weight(node)) out.parameters[kind] += node.type.shape.sizes.count();
    const auto lookup = lookup_of(model, id);
    if (!lookup) continue;
    lookups += lookup->bytes;
    if (kind == LayerKind::kWordEmbedding) {
      out.tokens = std::max(out.tokens, lookup->indices / samples);
    }
  }
  out.flops = models::count_forward_flops(model) / static_cast<double>(samples);
  out.lookups = lookups / static_cast<double>(samples);
  return out;
}

}  // namespace tandem::strategies

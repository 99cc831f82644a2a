#include "strategies/freeze.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::strategies {

namespace {

using graph::Graph;
using graph::NodeId;

bool contains(const std::vector<LayerKind>& kinds, LayerKind kind) {
  return std::ranges::find(kinds, kind) != kinds.end();
}

// Returns the kinds of layers that have weights.
std::vector<LayerKind> list_kinds_with_weights(const Graph& model) {
  const auto kinds = find_layer_kinds(model);
  std::vector<LayerKind> out;
  for (auto kind : kLayerKinds) {
    const auto ids = model.ids();
    const bool has = std::ranges::any_of(
        ids, [&](NodeId id) { return is_weight(model.node(id)) && kinds[id.index()] == kind; });
    if (has) out.push_back(kind);
  }
  return out;
}

std::string join_names(const std::vector<LayerKind>& kinds) {
  std::vector<std::string> out;
  out.reserve(kinds.size());
  for (auto kind : kinds) out.emplace_back(name(kind));
  return join(out, ", ");
}

void check_freezable(const Graph& model, const std::vector<LayerKind>& kinds) {
  const auto there = list_kinds_with_weights(model);
  for (auto kind : kinds) {
    if (contains(there, kind)) continue;
    throw UserError("flag", "--freeze",
                    fmt::format("{} has no weights in {} layers", model.name(), name(kind)),
                    "layer kinds with weights: " + join_names(there));
  }
  const auto is_frozen = [&](LayerKind kind) { return contains(kinds, kind); };
  if (!std::ranges::all_of(there, is_frozen)) return;
  throw UserError(
      "flag", "--freeze",
      fmt::format("freezes all weights of {}, so nothing is left to train", model.name()),
      "use --task inference instead");
}

}  // namespace

std::vector<LayerKind> parse_layer_kinds(std::string_view text) {
  std::vector<LayerKind> out;
  for (auto word : split(text, ',')) {
    const auto kind = parse_layer_kind(trim(word));
    if (!kind) {
      throw UserError("flag", "--freeze", fmt::format("unknown layer kind '{}'", trim(word)),
                      "expected one of: " + join_names({kLayerKinds.begin(), kLayerKinds.end()}));
    }
    if (!contains(out, *kind)) out.push_back(*kind);
  }
  return out;
}

Graph freeze(const Graph& model, const std::vector<LayerKind>& kinds) {
  check_freezable(model, kinds);
  const auto kind_of = find_layer_kinds(model);
  graph::GraphBuilder builder(model.name());
  std::vector<NodeId> image;
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    std::vector<NodeId> inputs;
    for (auto i : model.inputs(id)) inputs.push_back(image[i.index()]);
    if (is_weight(node) && contains(kinds, kind_of[id.index()])) {
      auto weight = node.op.get<ops::Weight>();
      weight.frozen = true;
      image.push_back(builder.add(ops::make_op(ops::kWeight, weight), {}, node.name));
    } else {
      image.push_back(builder.copy_node(model, id, inputs));
    }
  }
  std::vector<NodeId> outputs;
  for (auto o : model.outputs()) outputs.push_back(image[o.index()]);
  return builder.finish(std::move(outputs));
}

std::vector<LayerKind> list_default_frozen_kinds(const Graph& model) {
  auto out = list_kinds_with_weights(model);
  std::erase_if(out, [](LayerKind kind) {
    return kind != LayerKind::kEmbedding && kind != LayerKind::kWordEmbedding;
  });
  return out;
}

}  // namespace tandem::strategies

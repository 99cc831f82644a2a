#include "predict/folded.h"

#include <algorithm>
#include <set>
#include <string>

#include "strategies/stages.h"

namespace tandem::predict {

namespace {

constexpr std::int64_t kFoldedLayers = 3;

// Returns the layer numbers of a graph in the order of its operators.
std::vector<std::string_view> list_layer_numbers(const graph::Graph& graph) {
  std::vector<std::string_view> out;
  for (auto id : graph.ids()) {
    const auto& node = graph.node(id);
    if (node.op.role() != ops::Role::kCompute) continue;
    const auto number = strategies::parse_layer_number(node.name);
    if (!number.empty() && (out.empty() || out.back() != number)) out.push_back(number);
  }
  return out;
}

}  // namespace

std::optional<Folded> fold(const models::ConfiguredModel& model, std::int64_t batch, DType dtype) {
  if (!model.settings.has("layers")) return std::nullopt;
  const auto layers = model.settings.size("layers");
  if (layers < kFoldedLayers) return std::nullopt;
  auto folded = model;
  folded.settings.set("layers", std::to_string(kFoldedLayers));
  auto graph = folded.build(batch, dtype);
  if (list_layer_numbers(graph).size() != kFoldedLayers) return std::nullopt;
  return Folded{std::move(graph), layers, batch};
}

std::size_t count_nodes(const Folded& folded) {
  const auto sections = find_sections(folded.graph);
  const auto of_layer = static_cast<std::size_t>(std::ranges::count(sections, Section::kMiddle));
  const auto left_out = static_cast<std::size_t>(folded.layers - kFoldedLayers);
  return folded.graph.size() + left_out * of_layer;
}

std::vector<Section> find_sections(const graph::Graph& graph) {
  const auto numbers = list_layer_numbers(graph);
  CHECK(numbers.size() == kFoldedLayers, numbers.size());
  std::vector<Section> out(graph.size(), Section::kBefore);
  auto rest = Section::kBefore;  // section of nodes without a layer number
  for (auto id : graph.ids()) {
    const auto& node = graph.node(id);
    if (is_parallel(node)) continue;
    const auto at = std::ranges::find(numbers, strategies::parse_layer_number(node.name));
    if (at == numbers.end()) {
      out[id.index()] = rest;
      continue;
    }
    out[id.index()] = static_cast<Section>(1 + (at - numbers.begin()));
    rest = Section::kAfter;
  }
  copy_places_from_readers(graph, out);
  return out;
}

}  // namespace tandem::predict

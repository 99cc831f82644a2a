// A network of many equal layers, folded to three layers: the middle one stands for all layers
// between the first and the last. The cost of a plan then follows from a graph whose size does not
// depend on the number of layers.
//
// Example: embedding, 24 layers, head. The folded graph has the sections embedding (kBefore), l0
// (kFirst), l1 (kMiddle), l2 (kLast) and head (kAfter). The middle one stands for 22 layers.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "models/model.h"

namespace tandem::predict {

// Section of the network that a node is part of, in the order of the forward pass.
enum class Section : std::uint8_t { kBefore, kFirst, kMiddle, kLast, kAfter };
inline constexpr std::size_t kSections = 5;

struct Folded {
  graph::Graph graph;
  std::int64_t layers = 0;  // of the whole network; at least 3
  std::int64_t batch = 0;
};

// Returns the folded network, or nullopt if `model` has no hyperparameter `layers`, fewer than
// three layers, or layers that this hyperparameter does not count. Such networks are lowered whole.
std::optional<Folded> fold(const models::ConfiguredModel& model, std::int64_t batch, DType dtype);

// Returns the number of nodes of the whole network.
std::size_t count_nodes(const Folded& folded);

// Returns the section of each node of a folded network, or of its PCG. A parallelization operator
// belongs to the section of its first reader.
std::vector<Section> find_sections(const graph::Graph& graph);

// Returns the node of the model at the start of a chain of parallelization operators; `id` itself
// for other nodes.
inline graph::NodeId find_chain_start(const graph::Graph& pcg, graph::NodeId id) {
  while (is_parallel(pcg.node(id))) id = pcg.inputs(id)[0];
  return id;
}

// Sets the place of each parallelization operator to the place of its first reader.
template <class Place>
void copy_places_from_readers(const graph::Graph& graph, std::vector<Place>& places) {
  const auto consumers = graph.consumers();
  for (std::size_t n = graph.size(); n-- > 0;) {
    const auto& users = consumers[n];
    if (is_parallel(graph.node(graph::NodeId(n))) && !users.empty()) {
      places[n] = places[users.front().index()];
    }
  }
}

}  // namespace tandem::predict

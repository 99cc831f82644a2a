// A network of many equal layers with three of them: what stands between the first and the last is
// like the one in the middle. So what a plan costs can be found from a graph whose size does not
// depend on the number of layers.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "models/model.h"

namespace tandem::predict {

// What a node is part of, in the order of the forward pass.
enum class Section : std::uint8_t { kBefore, kFirst, kMiddle, kLast, kAfter };
inline constexpr std::size_t kSections = 5;

struct Folded {
  graph::Graph graph;
  std::int64_t layers = 0;  // of the whole network; at least 3
  std::int64_t batch = 0;
};

// Nothing where the network has no hyperparameter `layers`, fewer than three, or other layers than
// these: then it is best looked at as it is.
std::optional<Folded> fold(const models::Model& model, std::int64_t batch, DType dtype);

// Of the whole network.
std::size_t count_nodes(const Folded& folded);

// By node of a folded network, or of one made parallel: parallelization operators are of the
// section of what reads them.
std::vector<Section> sections_of(const graph::Graph& graph);

// The node of the model that a parallelization operator's chain begins with; `id` itself of others.
inline graph::NodeId start_of_chain(const graph::Graph& pcg, graph::NodeId id) {
  while (is_parallel(pcg.node(id))) id = pcg.inputs(id)[0];
  return id;
}

// Parallelization operators stand where what reads them first does.
template <class Place>
void take_from_readers(const graph::Graph& graph, std::vector<Place>& places) {
  const auto consumers = graph.consumers();
  for (std::size_t n = graph.size(); n-- > 0;) {
    const auto& users = consumers[n];
    if (is_parallel(graph.node(graph::NodeId(n))) && !users.empty()) {
      places[n] = places[users.front().index()];
    }
  }
}

}  // namespace tandem::predict

// Classifies the layer of every node in MAD-Max's terms (ISCA'24). MAD-Max gives each kind a
// strategy of its own. The kinds are read off the graph, not off names:
//   - A table that is looked up is an embedding; in a graph with attention, a word embedding.
//   - Operators between a dispatch and its combine are experts.
//   - A matmul on sequences in a graph with attention belongs to the transformer.
//   - Any other layer is dense.
// A node without weights of its own belongs to the layer before it.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace tandem::strategies {

enum class LayerKind : std::uint8_t { kEmbedding, kDense, kTransformer, kExperts, kWordEmbedding };
inline constexpr std::array kLayerKinds = {LayerKind::kEmbedding, LayerKind::kDense,
                                           LayerKind::kTransformer, LayerKind::kExperts,
                                           LayerKind::kWordEmbedding};

std::string_view name(LayerKind kind);  // "word_embedding"
std::optional<LayerKind> parse_layer_kind(std::string_view text);

// Returns the kinds by node. A source has the kind of its first reader.
std::vector<LayerKind> find_layer_kinds(const graph::Graph& model);

// Returns the number of tokens in a step: the largest number of indices into one vocabulary
// embedding. Returns 0 if the network has none.
std::int64_t count_tokens(const graph::Graph& model);

}  // namespace tandem::strategies

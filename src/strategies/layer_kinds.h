// What kind of layer every node belongs to, in MAD-Max's terms (ISCA'24): it gives each kind a
// strategy of its own. Read off the graph, not off names: a table that is looked up is an embedding
// (of words where the graph has attention), what stands between a dispatch and its combine are
// experts, a product of sequences in a graph with attention is the transformer's, and any other
// layer is dense. What has no weights of its own belongs to the layer before it.
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

// By node, sources included: those are of the kind of their first user.
std::vector<LayerKind> layer_kinds(const graph::Graph& model);

// How many tokens a step takes in: indices into the table of words that most are looked up in; 0
// where the network has none.
std::int64_t count_tokens(const graph::Graph& model);

}  // namespace tandem::strategies

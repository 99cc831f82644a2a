// Fine-tuning: freezes the weights of some kinds of layers.
#pragma once

#include <string_view>
#include <vector>

#include "strategies/layer_kinds.h"

namespace tandem::strategies {

// Parses a list such as "embedding,word_embedding". Throws UserError for an unknown kind and lists
// the known ones.
std::vector<LayerKind> parse_layer_kinds(std::string_view text);

// Returns the model with the weights of these layers frozen. They get no gradient, no optimizer
// state and no update. The backward pass ends where all weights before it are frozen. Throws
// UserError if the model has no weights of one of the kinds, or no others.
graph::Graph freeze(const graph::Graph& model, const std::vector<LayerKind>& kinds);

// Returns the layers that fine-tuning freezes by default: embedding tables, as all fine-tuning in
// MAD-Max's published tasks does. Returns none if the model has none.
std::vector<LayerKind> list_default_frozen_kinds(const graph::Graph& model);

}  // namespace tandem::strategies

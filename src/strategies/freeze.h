// Fine-tuning: which weights stay as they are, by kinds of layers.
#pragma once

#include <string_view>
#include <vector>

#include "strategies/layer_kinds.h"

namespace tandem::strategies {

// "embedding,word_embedding". Throws UserError: an unknown kind, with those there are.
std::vector<LayerKind> parse_layer_kinds(std::string_view text);

// The model with the weights of these layers frozen: they get no gradient, no optimizer state and
// no update, and the backward pass ends where all weights before it are frozen. Throws UserError
// where the model has no weights of one of the kinds, or no others.
graph::Graph freeze(const graph::Graph& model, const std::vector<LayerKind>& kinds);

// Those that fine-tuning freezes unless told otherwise: tables that are looked up, as all
// fine-tuning in MAD-Max's published tasks does. Empty where the model has none.
std::vector<LayerKind> frozen_by_default(const graph::Graph& model);

}  // namespace tandem::strategies

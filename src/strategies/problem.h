// What a strategy is asked about: a model on the digits of a machine, with what every strategy
// wants to know of its nodes. Made once for a whole sweep of settings.
#pragma once

#include <algorithm>
#include <vector>

#include "machine/digits.h"
#include "strategies/factor_kinds.h"
#include "strategies/layer_kinds.h"

namespace tandem::strategies {

struct Problem {
  const graph::Graph& model;
  const machine::Digits& digits;
  std::vector<AnalyzedNode> nodes;    // by node
  std::vector<LayerKind> layers;      // by node
  std::vector<bool> has_own_weights;  // by node: does it read a weight?

  Problem(const graph::Graph& m, const machine::Digits& d);

  [[nodiscard]] bool has(LayerKind kind) const {
    return std::ranges::find(layers, kind) != layers.end();
  }
  [[nodiscard]] bool is_table(graph::NodeId id) const {
    return layers[id.index()] == LayerKind::kEmbedding && has_own_weights[id.index()] &&
           model.node(id).op.spec().index_inputs != 0;
  }
  // Of all weights that an operator reads, whole.
  [[nodiscard]] Bytes weight_bytes(graph::NodeId id) const;
  // Is there a transformer with a sequence that may be cut? (The rows of an image are no sequence.)
  [[nodiscard]] bool has_sequence() const;
};

// The first factor that runs along a sequence and may be cut: of the result, else a summed one.
std::optional<ops::FactorId> sequence_factor(const AnalyzedNode& node);

// Returns the samples of a batch, by the first operator that has any.
std::optional<std::int64_t> batch_of(const Problem& problem);

// moe_dispatch, moe_combine: where tokens leave for experts and come back.
bool sends_tokens(const graph::Node& node);

}  // namespace tandem::strategies

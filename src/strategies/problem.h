// The input of a strategy: a model on the digits of a machine, with the analysis of its nodes that
// every strategy needs. It is built once for a whole sweep of settings.
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
  std::vector<bool> has_own_weights;  // by node: whether it reads a weight

  Problem(const graph::Graph& m, const machine::Digits& d);

  [[nodiscard]] bool has(LayerKind kind) const {
    return std::ranges::find(layers, kind) != layers.end();
  }
  [[nodiscard]] bool is_table(graph::NodeId id) const {
    return layers[id.index()] == LayerKind::kEmbedding && has_own_weights[id.index()] &&
           model.node(id).op.spec().index_inputs != 0;
  }
  // Returns the bytes of all weights that an operator reads, unsharded.
  [[nodiscard]] Bytes weight_bytes(graph::NodeId id) const;
  // Returns whether there is a transformer with a sequence that may be split. The rows of an image
  // are not a sequence.
  [[nodiscard]] bool has_sequence() const;
};

// Returns the first factor that runs along a sequence and may be split. Factors of the result come
// before summed ones.
std::optional<ops::FactorId> find_sequence_factor(const AnalyzedNode& node);

// Returns the samples of a batch, by the first operator that has any.
std::optional<std::int64_t> find_batch_size(const Problem& problem);

// Returns whether the node sends tokens to experts or back: moe_dispatch, moe_combine.
bool sends_tokens(const graph::Node& node);

}  // namespace tandem::strategies

// What the factors of every operator stand for in the model: the batch, a sequence, heads, experts,
// features. Read off the graph: a real input's dimensions are batch, sequence..., features, an
// image's batch, channels, rows, columns, those of tokens batch, sequence; a weight's are new
// features (the first of several is the heads); where tokens are sent to experts, the experts';
// operators hand them on.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/signature.h"

namespace tandem::strategies {

// In order of precedence where operands disagree.
enum class FactorKind : std::uint8_t { kData, kSpatial, kSequence, kHead, kExpert, kModel };
std::string_view name(FactorKind kind);

struct AnalyzedNode {
  const ops::Signature& signature;  // interned; empty for sources
  std::vector<FactorKind> kinds;    // by factor

  // The factor that runs along the batch, if there is one.
  [[nodiscard]] std::optional<ops::FactorId> batch() const;
};

// By node; of a model or a PCG.
std::vector<AnalyzedNode> analyze(const graph::Graph& model);

}  // namespace tandem::strategies

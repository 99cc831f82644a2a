// Classifies the factors of every operator: the batch, a sequence, heads, experts or features. The
// kinds are read off the graph:
//   - A real input has the dimensions batch, sequence..., features.
//   - An image has batch, channels, rows, columns. Tokens have batch, sequence.
//   - A weight's own dimensions are new features; the first of several is the heads.
//   - Where tokens are sent to experts, a dimension is the experts.
// Operators pass the kinds on to their results.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/signature.h"

namespace tandem::strategies {

// The kinds in order of precedence, for operands that disagree.
enum class FactorKind : std::uint8_t { kData, kSpatial, kSequence, kHead, kExpert, kModel };
std::string_view name(FactorKind kind);

struct AnalyzedNode {
  const ops::Signature& signature;  // interned; empty for sources
  std::vector<FactorKind> kinds;    // by factor

  // Returns the factor that runs along the batch, if there is one.
  [[nodiscard]] std::optional<ops::FactorId> batch() const;
};

// Returns the analysis of a model or a PCG, by node.
std::vector<AnalyzedNode> analyze(const graph::Graph& model);

}  // namespace tandem::strategies

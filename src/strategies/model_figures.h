// A network in a few figures, as papers compare networks: where its parameters are, and the cost of
// a sample (MAD-Max, ISCA'24: table 2 and figure 3).
#pragma once

#include <cstdint>
#include <map>

#include "graph/graph.h"
#include "strategies/strategies.h"

namespace tandem::strategies {

struct ModelFigures {
  std::map<LayerKind, std::int64_t> parameters;  // only kinds that have any
  std::int64_t samples = 1;                      // batch of the graph
  std::int64_t tokens = 0;                       // per sample; 0 without a vocabulary
  Flops flops = {};                              // forward pass, per sample
  Bytes lookups = {};                            // embedding rows read per sample

  // These return the values per token, if there are tokens.
  [[nodiscard]] Flops flops_per_token() const { return flops / static_cast<double>(tokens); }
  [[nodiscard]] Bytes lookups_per_token() const { return lookups / static_cast<double>(tokens); }
};

// Returns the first dimension of the first input, which is the batch of the models' graphs; 1
// without inputs.
std::int64_t count_samples(const graph::Graph& model);

// Returns the figures of a graph that was built for a batch of `samples`.
ModelFigures compute_figures(const graph::Graph& model, std::int64_t samples);

}  // namespace tandem::strategies

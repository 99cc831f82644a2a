// A network in a few figures, as papers compare networks: where its parameters are, and what a
// sample costs. (MAD-Max, ISCA'24: table 2 and figure 3.)
#pragma once

#include <cstdint>
#include <map>

#include "graph/graph.h"
#include "strategies/strategies.h"

namespace tandem::strategies {

struct ModelFigures {
  std::map<LayerKind, std::int64_t> parameters;  // of kinds that have any
  std::int64_t samples = 1;                      // of the graph: its batch
  std::int64_t tokens = 0;                       // of a sample; 0 where it looks up no words
  Flops flops = {};                              // forward, of a sample
  Bytes lookups = {};                            // rows of tables read for a sample

  // Of a token, where there are tokens.
  [[nodiscard]] Flops flops_of_token() const { return flops / static_cast<double>(tokens); }
  [[nodiscard]] Bytes lookups_of_token() const { return lookups / static_cast<double>(tokens); }
};

// The first dimension of the first input, which is the batch of a graph as models build it; 1
// without one.
std::int64_t samples_of(const graph::Graph& model);

// `samples` is the batch that the graph is built for.
ModelFigures figures_of(const graph::Graph& model, std::int64_t samples);

}  // namespace tandem::strategies

// Conversion of a training network to inference.
#pragma once

#include "graph/graph.h"

namespace tandem::models {

// Returns the network that inference runs. The output is the prediction instead of the loss; nodes
// that only the loss needs, and dropout, are removed. Further outputs are the keys and values of
// causal attention: the cache for later tokens. A network without a loss is returned unchanged.
graph::Graph convert_to_inference(const graph::Graph& model);

}  // namespace tandem::models

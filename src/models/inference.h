// What of a network for training runs in inference.
#pragma once

#include "graph/graph.h"

namespace tandem::models {

// The prediction that the loss judges in place of the loss; what serves only the loss goes, and
// nothing is dropped out. Beside
// it the keys and values that causal attention reads: the cache from which later tokens are made. A
// network without a loss stays as it is.
graph::Graph for_inference(const graph::Graph& model);

}  // namespace tandem::models

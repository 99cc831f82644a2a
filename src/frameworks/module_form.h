// Shapes of an operator with weights as a PyTorch module, whose dimensions differ from the graph's:
// nn.Linear has one dimension for all heads and their features.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace tandem::frameworks {

// For each dimension of a graph's tensor, the PyTorch dimension whose outer part it is. Nullopt for
// an inner part, which no placement shards.
using DimMap = std::vector<std::optional<int>>;

struct ModuleForm {
  Shape weight;  // shape of the parameter
  DimMap weight_dims;
  // Dimensions of the activations; the last one is -1, whatever the rank.
  DimMap input_dims, output_dims;
};

// Returns the form of operator `id` and of its operand `operand`, a weight. `graph` may be a PCG.
ModuleForm make_module_form(const graph::Graph& graph, graph::NodeId id, std::size_t operand);

}  // namespace tandem::frameworks

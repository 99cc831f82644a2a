// How an operator with weights stands in a module of PyTorch, where dimensions are others than in
// the graph: nn.Linear has one dimension for all heads and their features.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace tandem::frameworks {

// By dimension of a graph's tensor, which one of PyTorch's it is the outer part of; nothing where
// it is an inner part, which no placement cuts.
using DimMap = std::vector<std::optional<int>>;

struct ModuleForm {
  Shape weight;  // of the parameter
  DimMap weight_dims;
  // Of activations: last ones are -1, whatever lies before them.
  DimMap input_dims, output_dims;
};

// Of operator `id` and the weight that is its operand number `operand`. Graph or PCG.
ModuleForm module_form(const graph::Graph& graph, graph::NodeId id, std::size_t operand);

}  // namespace tandem::frameworks

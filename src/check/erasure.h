// Is a plan of the model it names?
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace tandem::check {

struct Difference {
  std::string where;  // a node
  std::string message;
};

// The first node by which the graph without its parallelization operators is not the model.
// Nothing if it is: then their identity hashes are equal.
std::optional<Difference> difference(const graph::Graph& model, const graph::Graph& erasure);

}  // namespace tandem::check

// Compares a plan's graph, without its parallelization operators, with the model it names.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace tandem::check {

struct Difference {
  std::string where;  // name of a node
  std::string message;
};

// Returns the first node where `erasure`, a graph without its parallelization operators, differs
// from `model`. Returns nullopt if the graphs have equal identity hashes.
std::optional<Difference> find_difference(const graph::Graph& model, const graph::Graph& erasure);

}  // namespace tandem::check

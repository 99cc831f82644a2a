// Graph splitting. The model is cut into pieces of at least k operators. Cuts are after operators
// that all paths pass, where the fewest matches of rules would be torn. Each piece is searched for
// every partitioning of the tensors at its two borders. Then the cheapest combination of
// partitionings is chosen. So the number of candidates grows with the number of pieces, not
// exponentially with the graph.
//
// A border's partitioning is a degree for each dimension of the tensor. Replicas and partial sums
// end before a border, because Replicate and Reduce are not inverses of each other. If a piece's
// tensor is partitioned otherwise, it gets parallelization operators, and they are costed.
#pragma once

#include <vector>

#include "unity/substitution.h"
#include "unity/to_plan.h"

namespace tandem::unity {

struct SplitSolution {
  std::vector<PieceSolution> pieces;
  bool is_complete = true;  // false if a piece exceeded its candidates
};

// Returns the operators after which the model is cut, in order.
std::vector<graph::NodeId> find_cuts(const graph::Graph& model, std::size_t least_nodes,
                                     Substitutions& substitutions);

// Returns at most `most` degrees by dimension that the sizes allow. The undivided tensor comes
// first. The others are sorted by the number of devices that they leave idle, then by the number of
// split dimensions.
//   [8, 6] on 4 devices -> [1, 1], [4, 1], [2, 2], [1, 2], [2, 1]
std::vector<Shape> list_border_states(const Shape& sizes, std::int64_t devices, std::size_t most);

SplitSolution solve_in_pieces(const graph::Graph& model, std::size_t least_nodes,
                              const Substitution& how, Substitutions& substitutions);

}  // namespace tandem::unity

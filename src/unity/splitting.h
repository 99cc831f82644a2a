// Graph splitting: the model is cut at operators that all paths pass, where the fewest matches of
// rules lie across, into pieces of at least k operators. Each piece is searched for every
// partitioning of the tensors at its two borders, and the borders' partitionings that are cheapest
// together are taken: so candidates grow with the number of pieces, not exponentially with the
// graph.
//
// A border's partitioning is a degree for each dimension of the tensor; replicas and partial sums
// end before a border, because Replicate and Reduce are no inverses of each other. A piece whose
// tensor is not partitioned like that gets the parallelization operators it takes, and they are
// costed.
#pragma once

#include <vector>

#include "unity/substitution.h"
#include "unity/to_plan.h"

namespace tandem::unity {

struct Solved {
  std::vector<SolvedPiece> pieces;
  bool is_complete = true;  // false where a piece had more candidates than were allowed
};

// The operators after which the model is cut, in order.
std::vector<graph::NodeId> cuts_of(const graph::Graph& model, std::size_t least_nodes,
                                   Substitutions& substitutions);

// Degrees for each dimension that the sizes allow: the undivided tensor, then by how many devices
// they leave idle and how many dimensions they cut; `most` at most.
std::vector<Shape> border_states(const Shape& sizes, std::int64_t devices, std::size_t most);

Solved solve_in_pieces(const graph::Graph& model, std::size_t least_nodes, const Substitution& how,
                       Substitutions& substitutions);

}  // namespace tandem::unity

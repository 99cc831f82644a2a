// Builds a parallel computation graph from choices. Given the use of each digit by every operator,
// it inserts the parallelization operators that the edges need.
//
// Example on 2 devices: linear is column-parallel, and relu is split along the batch.
//   %h = linear(%x, %w)   %r = relu(%h)
//   %h = linear(%x, %w)   %a = combine(%h) dim=1 degree=2   %b = partition(%a) dim=0 degree=2
//   %r = relu(%b)
#pragma once

#include <vector>

#include "graph/graph.h"
#include "machine/node_layout.h"
#include "plan/plan.h"

namespace tandem::plan {

// The choice for one node of the model's graph: an operator's partitioning or a source's layout.
struct Choice {
  machine::NodeLayout node;  // for operators
  machine::Layout source;    // for sources (input, weight, constant)
  std::uint16_t stage = 0;   // pipeline stage
  bool recompute = false;  // see MappedGraph; for a source: applies to the tensors gathered from it
  bool regather = false;   // for an operator: applies to the tensors gathered from its result
  bool operator==(const Choice&) const = default;
};

// Returns the mapped graph of `model` under `choices`, one for each node. A tensor that several
// operators need in the same layout is resharded once. CHECKs that no edge converts a complete
// value to partial sums, since no forward operator does that.
MappedGraph parallelize(const graph::Graph& model, const machine::Digits& digits,
                        const std::vector<Choice>& choices, const Schedule& schedule = {});

}  // namespace tandem::plan

// From choices to a parallel computation graph: given what each operator's digits do, inserts the
// parallelization operators that every edge needs.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "machine/node_layout.h"
#include "plan/plan.h"

namespace tandem::plan {

// For one node of the model's graph: how an operator is spread, or how a source is stored.
struct Choice {
  machine::NodeLayout node;   // compute
  machine::Layout source;     // input, weight
  std::uint16_t stage = 0;    // of the pipeline
  bool remake = false;        // MappedGraph's; of a source: what is gathered of it
  bool gather_again = false;  // of an operator: the same for what is gathered of its result
  bool operator==(const Choice&) const = default;
};

// A tensor that several operators want in the same layout is brought there once.
// Edges may not need what no forward operator does (a partial sum made from a whole value):
// CHECKed.
MappedGraph parallelize(const graph::Graph& model, const machine::Digits& digits,
                        const std::vector<Choice>& choices, const Schedule& schedule = {});

}  // namespace tandem::plan

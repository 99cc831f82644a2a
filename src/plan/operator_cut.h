// Partitioning of one operator by rules. The operator alone, on whole operands, is rewritten by
// rules that choose a factor and a degree. The result has the wanted degrees, replicas and partial
// sums of its operands.
//
// Example: linear of x [64, 512] and w [256, 512] is split along its columns over 2 devices.
//   x: replicate 2   w: partition 0 by 2   result: combine 1 by 2
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "machine/node_layout.h"
#include "plan/chain.h"

namespace tandem::plan {

// The operator after such rules.
struct OperatorCut {
  std::vector<ParallelShape> operands;
  ParallelShape result;
  std::vector<Chain> splits;  // by operand: the chain from a whole tensor
  Chain merge;                // the chain to a whole tensor
};

// Returns whether the layout partitions the operator, rather than only replicating its computation.
bool is_cut(const machine::NodeLayout& layout, const machine::Digits& digits);

// Returns the steps that partition node `id` as `layout` does, by shipped and proved rules. Returns
// nullopt if there are none.
std::optional<RuleSteps> find_cutting_steps(const graph::Graph& pcg, graph::NodeId id,
                                            const machine::NodeLayout& layout,
                                            const machine::Digits& digits);

// Returns the result of applying `steps` to node `id`. Throws UserError("derivation") if one does
// not apply.
OperatorCut replay_cut(const graph::Graph& pcg, graph::NodeId id, const RuleSteps& steps);

}  // namespace tandem::plan

// How rules cut one operator: taken alone, on whole operands, it is rewritten by rules that choose
// a factor and a degree, until its operands have the degrees, replicas and partial sums wanted.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "machine/node_layout.h"
#include "plan/chain.h"

namespace tandem::plan {

// What the rules that were applied have made of the operator.
struct OperatorCut {
  std::vector<ParallelShape> operands;
  ParallelShape result;
  std::vector<Chain> splits;  // by operand, from a whole tensor
  Chain merge;                // to a whole tensor
};

// Does the layout do more with the operator than compute it several times?
bool is_cut(const machine::NodeLayout& layout, const machine::Digits& digits);

// The steps that cut `id` of the graph as the layout does, by rules that are shipped and proved;
// nothing where there are none.
std::optional<RuleSteps> cutting_steps(const graph::Graph& pcg, graph::NodeId id,
                                       const machine::NodeLayout& layout,
                                       const machine::Digits& digits);

// What these steps make of it. Throws UserError("derivation") where one does not apply.
OperatorCut replay_cut(const graph::Graph& pcg, graph::NodeId id, const RuleSteps& steps);

}  // namespace tandem::plan

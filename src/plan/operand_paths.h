// Ways: the paths to the operators of a plan's graph. A way says what an operator reads, from which
// node, and through which parallelization operators.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/cut_cache.h"

namespace tandem::plan {

// The path of one operand.
struct OperandPath {
  graph::NodeId from;  // an operator or a source
  graph::NodeId to;
  std::size_t operand = 0;  // operand number of `to`
  Chain chain;              // parallelization operators between `from` and `to`
};

// Returns the ways to all compute operators, in the graph's order.
//   %a = combine(%x) dim=0 degree=2   %b = partition(%a) dim=1 degree=2   %y = linear(%b, %w)
//   -> from %x to operand 0 of %y by combine 0 by 2, partition 1 by 2; from %w to operand 1
std::vector<OperandPath> list_operand_paths(const graph::Graph& pcg);
// Returns a way's name: "linear2:0".
std::string format_place(const graph::Graph& pcg, const OperandPath& way);

// Returns the chain on a way before any simplification. It makes the tensor whole, as the source
// operator was partitioned, and then partitions it for the target operator. Returns nullopt if that
// would require making partial sums of it.
std::optional<Chain> make_unsimplified_chain(const graph::Graph& pcg, const OperandPath& way,
                                             const CutOperators& cuts);

}  // namespace tandem::plan

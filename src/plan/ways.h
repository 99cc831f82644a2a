// The ways to the operators of a plan's graph: what each of them reads, from where, and through
// which parallelization operators.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/operator_cut.h"

namespace tandem::plan {

struct Way {
  graph::NodeId from;  // an operator, input or weight
  graph::NodeId to;
  std::size_t operand = 0;  // of `to`
  Chain chain;              // what stands between
};

// Those to operators that compute, in the graph's order.
std::vector<Way> ways_of(const graph::Graph& pcg);
std::string place_of(const graph::Graph& pcg, const Way& way);  // "linear2:0"

// Of operators that steps cut, what they make of them; and with how many copies.
struct CutInCopies {
  OperatorCut cut;
  std::int64_t copies = 1;
};
using CutOperators = std::map<graph::NodeId, const CutInCopies*>;

// What stands on a way before anything is taken together: the tensor is put together as the
// operator it comes from was cut, and cut as the one it leads to. Nothing where a sum would be made
// of it.
std::optional<Chain> whole_between(const graph::Graph& pcg, const Way& way,
                                   const CutOperators& cuts);

}  // namespace tandem::plan

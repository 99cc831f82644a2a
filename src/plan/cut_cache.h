// Results of the rule steps that partition operators, computed once for equal operators.
#pragma once

#include <map>
#include <string>

#include "plan/operator_cut.h"

namespace tandem::plan {

// Returns whether the operator computes on whole operands, the same on every replica.
bool is_whole(const graph::Graph& pcg, graph::NodeId id);

// Returns a key that is equal for operators that the same steps partition in the same way.
std::string make_operator_key(const graph::Graph& pcg, graph::NodeId id);

// Operators that rule steps partitioned, with their results and numbers of copies.
struct CutInCopies {
  OperatorCut cut;
  std::int64_t replicas = 1;
};
using CutOperators = std::map<graph::NodeId, const CutInCopies*>;

// Caches the results of steps on operators. Equal operators share one result.
class CutCache {
 public:
  explicit CutCache(const graph::Graph& pcg) : pcg_(pcg) {}

  // Returns the result of applying `steps` to node `id`, in `copies` copies. Throws
  // UserError("derivation") if a step does not apply.
  const CutInCopies& get_result(graph::NodeId id, const RuleSteps& steps, std::int64_t copies);

 private:
  const graph::Graph& pcg_;
  std::map<std::string, CutInCopies> known_;
};

}  // namespace tandem::plan

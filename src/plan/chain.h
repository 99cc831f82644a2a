// Chains: the parallelization operators between two operators, innermost first. Rules about such
// operators alone convert one chain to another.
//
// Every chain has a normal form that its types determine: reduce, unreplicate, combine, partition,
// replicate, without pairs that cancel. Chains between the same types have the same normal form.
// One chain is turned into another through that form.
//
//   partition 1 by 2, combine 0 by 4, partition 0 by 2
//   combine 0 by 2, partition 1 by 2                      its normal form
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/op.h"
#include "plan/rule_step.h"
#include "tensor/tensor_type.h"

namespace tandem::plan {

// One parallelization operator of a chain.
struct ChainLink {
  const ops::OpSpec* kind = nullptr;
  std::int64_t dim = -1;    // for partition and combine
  std::int64_t degree = 1;  // for all operators except send
  bool operator==(const ChainLink&) const = default;
};
using Chain = std::vector<ChainLink>;

// Returns the chain link for a parallelization operator.
ChainLink to_chain_link(const ops::Op& op);
// Returns a chain as text: "reduce 2, partition 0 by 2".
std::string to_text(const Chain& chain);

// Returns the chain that makes a tensor of this shape whole.
Chain make_merging_chain(const ParallelShape& shape);
// Returns the chain that gives a whole tensor this shape. Returns nullopt for partial sums, because
// no operator makes them from a whole tensor.
std::optional<Chain> make_splitting_chain(const ParallelShape& shape);

// Returns rule steps from `from` to `to`. Returns nullopt if the chains differ in effect or if the
// rules do not suffice.
std::optional<RuleSteps> find_chain_steps(const Chain& from, const Chain& to);

}  // namespace tandem::plan

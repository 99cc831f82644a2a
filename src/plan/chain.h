// The parallelization operators on a way from one operator to another, innermost first, and how the
// rules about such operators alone turn one list of them into another.
//
// Every list has a normal form that its types determine: sums, then copies ended, then dimensions
// put together, then dimensions cut, then copies made, and nothing that is done and undone. Two
// lists between the same types have the same, so the one is turned into it, and it into the other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/op.h"
#include "plan/rule_step.h"
#include "tensor/tensor_type.h"

namespace tandem::plan {

struct ChainLink {
  const ops::OpSpec* kind = nullptr;
  std::int64_t dim = -1;    // of partition and combine
  std::int64_t degree = 1;  // of all but send
  bool operator==(const ChainLink&) const = default;
};
using Chain = std::vector<ChainLink>;

ChainLink link_of(const ops::Op& op);
std::string to_text(const Chain& chain);  // "reduce 2, partition 0 by 2"

// What puts a tensor of the shape together, and what cuts a whole one so: sums are not made from
// anything whole.
Chain merging(const ParallelShape& shape);
std::optional<Chain> splitting(const ParallelShape& shape);

// Nothing where the lists do not do the same, or rules do not say so.
std::optional<RuleSteps> steps_between(const Chain& from, const Chain& to);

// What the steps make of the list on a tensor of the type, by rules that are shipped and proved.
// Throws UserError("derivation") where one is not, or does not apply.
Chain replay(const TensorType& type, const Chain& chain, const RuleSteps& steps);

}  // namespace tandem::plan

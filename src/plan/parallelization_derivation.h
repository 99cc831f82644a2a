// The parallelization of a model's graph as a derivation by shipped and proved rules. Rules first
// partition each operator alone, one factor at a time. Between two operators, a tensor is then
// gathered and partitioned again. Rules about parallelization operators alone convert that chain to
// the plan's chain.
//
// Example on 2 devices: relu and scale are split along the batch.
//   each alone     partition 0 by 2, relu, combine 0 by 2; partition 0 by 2, scale, combine 0 by 2
//   between them   combine 0 by 2, partition 0 by 2 becomes nothing
//
// Operators with equal steps share one derivation with several places, and so do equal paths
// between operators. Places that no rules lead to are listed. Their correctness is checked by
// values only.
#pragma once

#include <cstddef>

#include "machine/digits.h"
#include "plan/plan.h"

namespace tandem::plan {

// Returns the number of steps, counted at every place.
std::size_t count_steps(const Parallelization& of);

// Returns the steps that lead to `mapped`.
Parallelization find_parallelization(const MappedGraph& mapped, const machine::Digits& digits);

}  // namespace tandem::plan

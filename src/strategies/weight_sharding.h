// Storage of weights between their uses.
#pragma once

#include "machine/layout.h"

namespace tandem::strategies {

// Returns the layout that stores a weight of these sizes sharded over the digits of `over`.
// `layout` is the one that it is used in; only digits that replicate it there are used. Shards the
// first dimension that all of the digits divide, or else the one that takes most of them.
//   replicated over three digits of size 2, all in `over`:
//   [6, 1024] -> dimension 1 by 8, [6, 10] -> dimension 0 by 2
machine::Layout shard_weight(machine::Layout layout, const Shape& sizes, machine::DigitMask over,
                             const machine::Digits& digits);

}  // namespace tandem::strategies

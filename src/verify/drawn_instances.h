// Where a source occurs beyond its patterns (instances.h): ranks, sizes and symbols are drawn, near
// those of a pattern or far from it. Patterns deviate from equal sizes in few places, so that what
// is true of these alone, as where one operand is a row, another a column and the third a matrix,
// would be proved.
#pragma once

#include <span>
#include <vector>

#include "verify/instances.h"

namespace tandem::verify {

// Those of so many tries at which the source occurs, each once. `near` are instances to begin with,
// the plainest first; of none, none.
std::vector<Instance> drawn_instances(const Rule& rule, std::span<const Instance> near,
                                      std::size_t tries, Hash seed);

}  // namespace tandem::verify

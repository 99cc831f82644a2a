// Where a source occurs beyond its patterns (instances.h): ranks, sizes and symbols are drawn, near
// those of a pattern or far from it. Patterns deviate from equal sizes in few places, so that what
// is true of these alone, as where one operand is a row, another a column and the third a matrix,
// would be proved.
#pragma once

#include <span>
#include <unordered_set>
#include <vector>

#include "verify/instances.h"

namespace tandem::verify {

// Those of so many tries at which the source occurs, each once. `near` are instances to begin with,
// the plainest first; of none, none.
std::vector<Instance> drawn_instances(const Rule& rule, std::span<const Instance> near,
                                      std::size_t tries, Hash seed);

// What occurrences have in common or not: which sizes are 1 or equal, ranks, symbols. Two of these
// that came together are not new again, so that few occurrences show all that many do.
class Seen {
 public:
  // Does the instance show two that no one before it did? They are seen then.
  bool is_new(const Instance& instance);

 private:
  std::unordered_set<Hash> pairs_;
};

}  // namespace tandem::verify

// Draws occurrences of a source beyond its patterns (instances.h). Ranks, sizes and symbols are
// drawn near those of a pattern or far from them. Patterns deviate from equal sizes in few places.
// Without drawn instances, a rule would be proved that is true of patterns alone, such as one that
// fails when a row, a column and a matrix meet.
#pragma once

#include <span>
#include <unordered_set>
#include <vector>

#include "verify/instances.h"

namespace tandem::verify {

// Returns the distinct instances among `tries` tries at which the source occurs. `near` are the
// instances to begin with, the plainest first. If it is empty, so is the result.
std::vector<Instance> draw_instances(const Rule& rule, std::span<const Instance> near,
                                     std::size_t tries, Hash seed);

// Facts that occurrences have in common or not: sizes that are 1 or equal, ranks, symbols. Only a
// new pair of facts makes an instance new, so that few occurrences show all that many do.
class NoveltyFilter {
 public:
  // Returns whether the instance shows a pair of facts that no earlier one showed. Records its
  // pairs.
  bool is_new(const Instance& instance);

 private:
  std::unordered_set<Hash> pairs_;
};

}  // namespace tandem::verify

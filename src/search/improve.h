// The improvement of a pool of candidates by neighbourhoods.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "search/pool.h"

namespace tandem::search {

// Candidates that differ from those of the pool in one respect: their layouts, where embedding
// tables are, what is recomputed, the graph.
struct Neighbourhood {
  std::string_view name;
  // Enters candidates near those of the pool. The pool alone decides which of them is the best.
  std::function<void()> enter;
  // Begins from the best candidate, so that it is worth another time once that has changed.
  bool repeats = false;
};

// Tries the neighbourhoods in their order, and again those that repeat, as long as one improves the
// best candidate by more than a little. With A and B that repeat and C that does not: A B C, then A
// where B or C improved the best, B where C or A did, and so on. Ends early where the search is
// over.
void improve(CandidatePool& pool, const std::vector<Neighbourhood>& neighbourhoods);

}  // namespace tandem::search

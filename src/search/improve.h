// Improves a pool of candidates by neighbourhoods.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "search/pool.h"

namespace tandem::search {

// A source of candidates that differ from those of the pool in one respect: layouts, places of
// embedding tables, recomputation or the graph.
struct Neighbourhood {
  std::string_view name;
  // Enters candidates near those of the pool. Only the pool decides which is best.
  std::function<void()> enter;
  // Whether it starts from the best candidate, so that it is worth repeating after that has
  // changed.
  bool repeats = false;
};

// Tries the neighbourhoods in order, then repeats those with `repeats` as long as one improves the
// best candidate by more than kWorthAnotherRound. Example: A and B repeat, C does not. The order is
// A B C, then A if B or C improved the best, then B if C or A did, and so on. Ends early if the
// search is over.
void improve(CandidatePool& pool, const std::vector<Neighbourhood>& neighbourhoods);

}  // namespace tandem::search

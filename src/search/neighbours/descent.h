// Local descent over placements: simulates all changes of a placement and continues from the
// fastest one.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "search/pool.h"

namespace tandem::search {

// Returns whether the plan runs the whole batch in one pass on all devices. Placement searches only
// handle such plans.
inline bool is_for_one_pass(const Candidate& plan) {
  return plan.schedule.stages == 1 && plan.schedule.micro_batches == 1;
}

// Simulates the candidates that `make` returns for the changes `all`, at most
// `left` of them. Decrements `left` for each one. Returns the index and the time of the
// fastest that fits, or nullopt if it is not faster than `than`.
//   three changes that fit and take 9, 7 and 8 ms; than 8 ms -> {1, 7 ms}; than 7 ms -> nullopt
template <class Change, class Make>
std::optional<std::pair<std::size_t, Seconds>> find_fastest_change(CandidatePool& pool,
                                                                   const std::vector<Change>& all,
                                                                   std::size_t& left, Seconds than,
                                                                   const Make& make) {
  std::vector<Candidate> candidates;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < all.size() && left > 0; ++i) {
    auto made = make(all[i]);
    if (!made) continue;
    --left;
    which.push_back(i);
    candidates.push_back(std::move(*made));
  }
  const auto costed = pool.enter(candidates, than);
  std::optional<std::pair<std::size_t, Seconds>> best;
  for (std::size_t i = 0; i < costed.size(); ++i) {
    if (!costed[i] || !costed[i]->feasible) continue;
    const auto seconds = costed[i]->simulation.iteration;
    if (seconds < (best ? best->second : than)) best = {which[i], seconds};
  }
  return best;
}

}  // namespace tandem::search

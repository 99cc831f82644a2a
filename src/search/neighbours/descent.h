// Going down from one placement to the next: changes are simulated, and the fastest is gone on
// from.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "search/pool.h"

namespace tandem::search {

// Placing is for plans whose batch is there at once, on all devices.
inline bool is_for_one_pass(const Candidate& plan) {
  return plan.schedule.stages == 1 && plan.schedule.micro_batches == 1;
}

// Of `all`, what `make` makes a candidate of, no more than `left` of them, which counts down. Where
// the fastest that fits lies, and its time; nothing if that is not faster than `than`.
template <class Change, class Make>
std::optional<std::pair<std::size_t, Seconds>> fastest_of(CandidatePool& pool,
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

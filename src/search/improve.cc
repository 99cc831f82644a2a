#include "search/improve.h"

#include <limits>

#include "search/limits.h"

namespace tandem::search {

namespace {

Seconds get_best_time(CandidatePool& pool) {
  const auto& best = pool.result().best;
  return best ? best->time() : Seconds{std::numeric_limits<double>::infinity()};
}

}  // namespace

void improve(CandidatePool& pool, const std::vector<Neighbourhood>& neighbourhoods) {
  std::vector<Seconds> left_at;  // best time after each neighbourhood's last try
  for (const auto& neighbourhood : neighbourhoods) {
    if (!pool.is_over()) neighbourhood.enter();
    left_at.push_back(get_best_time(pool));
  }
  for (bool improves = true; improves;) {
    improves = false;
    for (std::size_t i = 0; i < neighbourhoods.size() && !pool.is_over(); ++i) {
      const auto before = get_best_time(pool);
      if (!neighbourhoods[i].repeats || before >= limits::kWorthAnotherRound * left_at[i]) continue;
      neighbourhoods[i].enter();
      left_at[i] = get_best_time(pool);
      improves = improves || left_at[i] < limits::kWorthAnotherRound * before;
    }
  }
}

}  // namespace tandem::search

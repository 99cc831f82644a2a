// What the strategies of the grid say once it has been evaluated: which simpler ones are nearly as
// fast as the plan, and the lower bound of all.

#include <algorithm>
#include <map>
#include <tuple>

#include "search/bounds.h"
#include "search/strategy_search.h"

namespace tandem::search {

// What is simpler than the plan so far, and may be nearly as fast by its estimate.
void StrategySearch::try_simpler() {
  constexpr std::size_t kTried = 4;
  if (options_.tolerance == 0 || !grid_ || !contest_.result().best || contest_.is_over()) return;
  std::vector<std::pair<Complexity, const Estimated*>> simpler;
  const auto simplest = contest_.simplest();
  for (const auto& e : *grid_) {
    if (!e.point || !e.point->feasible) continue;
    const auto complexity = complexity_of(e.setting);
    if (complexity >= simplest || e.point->simulation.iteration > contest_.allowed()) continue;
    const auto is_it = [&](const Estimated& known) { return known.setting == e.setting; };
    if (std::ranges::none_of(contest_.simulated(), is_it)) simpler.emplace_back(complexity, &e);
  }
  std::ranges::stable_sort(simpler, {}, [](const auto& some) {
    return std::tuple(some.first, some.second->point->simulation.iteration);
  });
  if (simpler.size() > kTried) simpler.resize(kTried);
  for (const auto& [complexity, e] : simpler) {
    if (complexity >= contest_.simplest()) return;
    for (auto& strategy : make_strategies({e->setting}, problem_)) {
      if (may_win(strategy.choices)) contest_.enter({candidate_of(std::move(strategy))});
    }
  }
}

// What was simulated takes as long as it does, what was estimated little less than its estimate.
// What hardly does not fit by its estimate may fit.
std::optional<Seconds> StrategySearch::bound() const {
  if (!others_) return std::nullopt;
  std::map<std::string, const Point*> simulated;
  for (const auto& e : contest_.simulated()) simulated[to_text(e.setting)] = &*e.point;
  double out = *others_;
  const auto unsure = kUnsure * std::ranges::max(contest_.result().limits);
  const auto include = [&](const Estimated& e) {
    if (e.bound == 0 || !e.point) return;
    const auto off = e.point->is_rough ? kRoughly : kNearly;
    const auto bound = std::max(e.bound, e.point->simulation.iteration.value / off);
    const auto at = simulated.find(e.point->strategy);
    if (at == simulated.end()) {
      if (e.point->feasible || e.point->over <= unsure) out = std::min(out, bound);
      return;
    }
    check_bound(at->second->simulation.iteration, Seconds{bound}, e.point->strategy);
    if (at->second->feasible) out = std::min(out, at->second->simulation.iteration.value);
  };
  if (grid_) std::ranges::for_each(*grid_, include);
  std::ranges::for_each(simulated_grid_, include);
  return Seconds{out};
}

}  // namespace tandem::search

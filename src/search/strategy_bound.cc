// Uses the evaluated grid: simulates simpler strategies that are nearly as fast as the plan, and
// bounds the step time of all grid strategies.

#include <algorithm>
#include <map>
#include <tuple>

#include "search/bounds.h"
#include "search/limits.h"
#include "search/strategy_search.h"

namespace tandem::search {

// Simulates strategies that are simpler than the plan so far and may be nearly as fast by their
// estimate.
void StrategySearch::try_simpler() {
  if (options_.tolerance == 0 || !grid_ || !pool_.result().best || pool_.is_over()) return;
  std::vector<std::pair<Complexity, const Evaluated*>> simpler;
  const auto simplest = pool_.find_least_complexity();
  for (const auto& e : *grid_) {
    if (!e.feasible) continue;
    const auto complexity = compute_complexity(*e.setting);
    if (complexity >= simplest || e.time() > pool_.longest_allowed_time()) continue;
    const auto is_it = [&](const Evaluated& known) { return known.setting == e.setting; };
    if (std::ranges::none_of(pool_.simulated(), is_it)) simpler.emplace_back(complexity, &e);
  }
  std::ranges::stable_sort(
      simpler, {}, [](const auto& some) { return std::tuple(some.first, some.second->time()); });
  if (simpler.size() > limits::kSimplerTried) simpler.resize(limits::kSimplerTried);
  for (const auto& [complexity, e] : simpler) {
    if (complexity >= pool_.find_least_complexity()) return;
    for (auto& strategy : make_strategies({*e->setting}, problem_)) {
      if (may_win(strategy.choices)) pool_.enter({make_candidate(std::move(strategy))});
    }
  }
}

// Uses the simulated time if there is one. Otherwise the time can be only little less than its
// estimate. A strategy that by its estimate barely does not fit may fit.
std::optional<Seconds> StrategySearch::compute_grid_bound() const {
  if (!others_) return std::nullopt;
  std::map<std::string, const Evaluated*> simulated;
  for (const auto& e : pool_.simulated()) simulated[to_text(*e.setting)] = &e;
  double out = *others_;
  const auto unsure = limits::kUnsureMemory * std::ranges::max(pool_.result().limits);
  const auto include = [&](const Evaluated& e) {
    if (e.bound == 0) return;
    const auto off = e.is_rough() ? limits::kRoughly : limits::kNearly;
    const auto bound = std::max(e.bound, e.time().value / off);
    const auto at = simulated.find(to_text(*e.setting));
    if (at == simulated.end()) {
      if (e.feasible || e.over <= unsure) out = std::min(out, bound);
      return;
    }
    check_bound(at->second->time(), Seconds{bound}, at->first);
    if (at->second->feasible) out = std::min(out, at->second->time().value);
  };
  std::ranges::for_each(evaluated_grid(), include);
  return Seconds{out};
}

}  // namespace tandem::search

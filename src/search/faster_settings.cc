#include "search/faster_settings.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "search/neighbours/setting_changes.h"

namespace tandem::search {

namespace {

// Nothing where there is no estimate, or no such strategy here.
std::optional<Point> estimate_point(Estimates& estimates, const strategies::Setting& setting) {
  try {
    return estimates.point(setting);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<FasterSetting> faster_settings(Estimates& estimates, const strategies::Setting& setting,
                                           const strategies::Problem& problem, std::int64_t batch,
                                           std::size_t most) {
  constexpr double kWorthTelling = 0.99;
  const auto own = estimate_point(estimates, setting);
  if (!own) return {};
  const auto limit = kWorthTelling * own->simulation.iteration;
  std::vector<FasterSetting> out;
  for (const auto& changed : single_changes(setting, problem, batch)) {
    auto point = estimate_point(estimates, changed);
    if (!point || !point->feasible || point->simulation.iteration > limit) continue;
    out.push_back({change_text(setting, changed), std::move(*point)});
  }
  const auto time = [](const FasterSetting& f) { return f.point.simulation.iteration; };
  std::ranges::stable_sort(out, {}, time);
  const auto same = [](const FasterSetting& a, const FasterSetting& b) {
    return a.point.simulation.iteration == b.point.simulation.iteration &&
           a.point.simulation.memory == b.point.simulation.memory;
  };
  out.erase(std::unique(out.begin(), out.end(), same), out.end());
  if (out.size() > most) out.resize(most);
  return out;
}

}  // namespace tandem::search

#include "search/faster_settings.h"

#include <algorithm>
#include <utility>

#include "search/limits.h"
#include "search/neighbours/setting_changes.h"

namespace tandem::search {

std::vector<FasterSetting> find_faster_settings(Estimates& estimates,
                                                const strategies::Setting& setting,
                                                const strategies::Problem& problem,
                                                std::int64_t batch, std::size_t most) {
  const auto own = estimates.find(setting);
  if (!own) return {};
  const auto limit = limits::kWorthTelling * own->time();
  std::vector<FasterSetting> out;
  for (const auto& changed : list_single_changes(setting, problem, batch)) {
    auto point = estimates.find(changed);
    if (!point || !point->feasible || point->time() > limit) continue;
    out.push_back({describe_change(setting, changed), std::move(*point)});
  }
  const auto time = [](const FasterSetting& f) { return f.point.time(); };
  std::ranges::stable_sort(out, {}, time);
  const auto same = [](const FasterSetting& a, const FasterSetting& b) {
    return a.point.time() == b.point.time() &&
           a.point.simulation.memory == b.point.simulation.memory;
  };
  out.erase(std::unique(out.begin(), out.end(), same), out.end());
  if (out.size() > most) out.resize(most);
  return out;
}

}  // namespace tandem::search

#include "search/grid_search.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "search/estimates.h"
#include "strategies/wide_grid.h"

namespace tandem::search {

namespace {

using strategies::Setting;

void add(std::vector<Setting>& out, const Setting& setting) {
  if (std::ranges::find(out, setting) == out.end()) out.push_back(setting);
}

// A pipeline with other numbers of micro-batches, and with its stages in pieces.
void add_schedules(const Setting& setting, std::int64_t batch, std::vector<Setting>& out) {
  const auto usual = setting.micro.value_or(1);
  for (const auto micro : {usual, usual / 2, usual * 2, usual * 4}) {
    if (micro < 1 || batch % micro != 0) continue;
    for (const std::int64_t pieces : {1, 2, 4}) {
      if (pieces > 1 && micro % setting.pp != 0) continue;
      auto other = setting;
      other.micro = micro;
      other.interleave = pieces;
      add(out, other);
    }
  }
}

}  // namespace

std::vector<Setting> grid_settings(const strategies::Problem& problem) {
  auto out = strategies::memory_saving_settings(problem);
  std::ranges::move(strategies::pipeline_settings(problem), std::back_inserter(out));
  return out;
}

std::vector<Setting> varied(const std::vector<Setting>& settings, std::int64_t batch) {
  std::vector<Setting> out;
  for (const auto& setting : settings) {
    if (setting.pp == 1) continue;
    std::vector<Setting> schedules;
    add_schedules(setting, batch, schedules);
    for (auto& schedule : schedules) {
      out.push_back(schedule);
      if (schedule.dp.value_or(1) == 1) continue;
      schedule.zero = 1;
      out.push_back(std::move(schedule));
    }
  }
  std::erase_if(out,
                [&](const Setting& s) { return std::ranges::find(settings, s) != settings.end(); });
  return out;
}

std::vector<Estimated> estimate_all(const Case& on, const std::vector<Setting>& settings) {
  Estimates estimates(on);
  std::vector<Estimated> out;
  for (const auto& setting : settings) {
    out.push_back({setting, std::nullopt});
    try {
      out.back().point = estimates.point(setting);
    } catch (const UserError&) {  // whoever makes the strategy says what is wrong
    }
  }
  return out;
}

std::vector<Setting> promising(std::vector<Estimated> settings, std::size_t most) {
  std::erase_if(settings, [](const Estimated& e) { return !e.point; });
  std::ranges::stable_sort(settings, [](const Estimated& a, const Estimated& b) {
    if (a.point->feasible != b.point->feasible) return a.point->feasible;
    if (!a.point->feasible) return a.point->over < b.point->over;
    return a.point->simulation.iteration < b.point->simulation.iteration;
  });
  std::vector<Setting> out;
  for (std::size_t i = 0; i < std::min(most, settings.size()); ++i) {
    out.push_back(std::move(settings[i].setting));
  }
  return out;
}

}  // namespace tandem::search

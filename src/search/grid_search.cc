#include "search/grid_search.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/error.h"
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

// More, smaller micro-batches instead of recomputation, and results of matmuls saved.
void add_micro_batches(const Setting& setting, std::int64_t batch, std::vector<Setting>& out) {
  const auto usual = setting.micro.value_or(1);
  for (const auto micro : {usual, usual / 2, usual * 2, usual * 4}) {
    if (micro < 1 || batch % micro != 0) continue;
    for (const auto& how : {setting.recompute, std::string("none"), std::string("save_matmuls")}) {
      auto other = setting;
      other.recompute = how;
      other.micro = micro > 1 ? std::optional(micro) : std::nullopt;
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
  constexpr std::size_t kWithoutPipeline = 8;
  std::vector<Setting> out;
  std::size_t without_pipeline = 0;
  for (const auto& setting : settings) {
    if (setting.pp == 1) {
      if (without_pipeline++ < kWithoutPipeline) add_micro_batches(setting, batch, out);
      continue;
    }
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

Point point_of(const Costed& costed) {
  Point out{.strategy = costed.name,
            .simulation = costed.simulation,
            .over = costed.over,
            .feasible = costed.feasible};
  out.simulation.timeline = {};
  return out;
}

std::vector<Estimated> estimate_all(Estimates& estimates, const std::vector<Setting>& settings) {
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

namespace {

// What has an estimate, the best first; of those that come to the same time and memory the first.
std::vector<const Estimated*> ranked(const std::vector<Estimated>& settings) {
  std::vector<const Estimated*> out;
  for (const auto& e : settings) {
    if (e.point) out.push_back(&e);
  }
  std::ranges::stable_sort(out, [](const Estimated* a, const Estimated* b) {
    if (a->point->feasible != b->point->feasible) return a->point->feasible;
    if (!a->point->feasible) return a->point->over < b->point->over;
    return a->point->simulation.iteration < b->point->simulation.iteration;
  });
  const auto same = [](const Estimated* a, const Estimated* b) {
    return a->point->simulation.iteration == b->point->simulation.iteration &&
           a->point->over == b->point->over;
  };
  out.erase(std::unique(out.begin(), out.end(), same), out.end());
  return out;
}

}  // namespace

std::vector<Setting> promising(const std::vector<Estimated>& settings, std::size_t most) {
  std::vector<Setting> out;
  for (const auto* e : ranked(settings)) {
    if (out.size() == most) break;
    out.push_back(e->setting);
  }
  return out;
}

std::vector<Setting> promising_of_each_depth(const std::vector<Estimated>& settings,
                                             std::size_t most) {
  constexpr double kSlower = 1.25;  // than the best; what layouts of their own may make up for
  constexpr std::size_t kMore = 3;
  const auto known = ranked(settings);
  auto out = promising(settings, most);
  for (std::size_t i = out.size(); i < known.size() && out.size() < most + kMore; ++i) {
    const auto& setting = known[i]->setting;
    const auto& point = known[i]->point;
    if (point->feasible != known[0]->point->feasible) break;
    const auto best = known[0]->point->simulation.iteration;
    if (point->simulation.iteration > kSlower * best) continue;
    const auto is_as_deep = [&](const Setting& other) { return other.pp == setting.pp; };
    if (std::ranges::none_of(out, is_as_deep)) out.push_back(setting);
  }
  return out;
}

}  // namespace tandem::search

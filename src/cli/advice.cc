#include "cli/advice.h"

#include <fmt/format.h>

#include "base/text.h"
#include "search/fitting_setting.h"
#include "strategies/grid.h"

namespace tandem::cli {

Advice advise(const Job& job, const std::string& strategy, bool fits) {
  constexpr std::size_t kMost = 3;
  const bool as_it_is = job.task.task == "pretrain" && job.task.freeze.empty();
  if (!as_it_is || job.stale_weights || !is_setting(strategy)) return {};
  const auto setup = resolve_folded(job, 0);
  if (!setup) return {};
  const strategies::Problem problem(setup->graph, setup->digits);
  search::Estimates estimates(make_case(*setup, problem));
  const auto setting = complete(strategies::parse_setting(strategy), problem).front();
  Advice out;
  if (!fits) out.fitting = search::find_fitting_setting(estimates, setting, setup->batch);
  out.faster = search::find_faster_settings(estimates, setting, problem, setup->batch, kMost);
  return out;
}

std::string fitting_line(const Advice& advice) {
  if (!advice.fitting) return "";
  const auto& point = *advice.fitting;
  return fmt::format("  to fit      {}: {}, {}\n", point.name,
                     format_seconds(point.simulation.iteration.value),
                     format_bytes(point.simulation.memory.value));
}

std::string faster_text(const Advice& advice) {
  std::vector<std::string> changes;
  for (const auto& [change, point] : advice.faster) {
    changes.push_back(
        fmt::format("{} ({})", change, format_seconds(point.simulation.iteration.value)));
  }
  if (changes.empty()) return "";
  return fmt::format("Faster settings: {}.\n\n", join(changes, "; "));
}

namespace {

Json point_json(const search::Evaluated& point) {
  return {{"strategy", point.name},
          {"iteration_s", point.simulation.iteration.value},
          {"memory_bytes", static_cast<std::int64_t>(point.simulation.memory.value)}};
}

}  // namespace

void add_advice(Json& out, const Advice& advice, bool fits) {
  if (!fits) out["fitting"] = advice.fitting ? point_json(*advice.fitting) : Json();
  out["advice"] = Json::array();
  for (const auto& [change, point] : advice.faster) {
    Json row{{"change", change}};
    row.update(point_json(point));
    out["advice"].push_back(std::move(row));
  }
}

}  // namespace tandem::cli

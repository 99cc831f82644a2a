#include "cli/fitting_strategy.h"

#include <fmt/format.h>

#include "base/text.h"
#include "search/fitting_setting.h"
#include "strategies/grid.h"

namespace tandem::cli {

std::optional<search::Point> fitting_strategy(const Job& job, const std::string& strategy) {
  const bool as_it_is = job.task.task == "pretrain" && job.task.freeze.empty();
  if (!as_it_is || job.stale_weights || !is_setting(strategy)) return std::nullopt;
  const auto setup = resolve_folded(job, 0);
  if (!setup) return std::nullopt;
  const strategies::Problem problem(setup->graph, setup->digits);
  search::Estimates estimates(case_of(*setup, problem));
  const auto setting = complete(strategies::parse_setting(strategy), problem).front();
  return search::fitting_setting(estimates, setting, setup->batch);
}

std::string fitting_line(const std::optional<search::Point>& fitting) {
  if (!fitting) return "";
  return fmt::format("  to fit      {}: {}, {}\n", fitting->strategy,
                     seconds_text(fitting->simulation.iteration.value),
                     bytes_text(fitting->simulation.memory.value));
}

Json fitting_json(const std::optional<search::Point>& fitting) {
  if (!fitting) return nullptr;
  return {{"strategy", fitting->strategy},
          {"iteration_s", fitting->simulation.iteration.value},
          {"memory_bytes", static_cast<std::int64_t>(fitting->simulation.memory.value)}};
}

}  // namespace tandem::cli

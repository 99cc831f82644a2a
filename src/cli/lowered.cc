#include "cli/lowered.h"

#include <fmt/format.h>

#include "base/error.h"
#include "cli/progress.h"
#include "lower/lower.h"
#include "plan/json.h"
#include "search/evaluated.h"

namespace tandem::cli {

LoweredPlan lower_plan(const Job& job, const std::vector<std::string>& others) {
  for (const auto& flag : others) {
    throw UserError("flag", flag, "cannot be used with a plan, which has its own value",
                    "remove the flag");
  }
  auto plan = plan::parse_plan(read_file(job.model_text), job.model_text);
  if (!job.machine_text.empty() && job.machine_text != plan.machine) {
    throw UserError("flag", "--machine",
                    fmt::format("is {}, but the plan is for {}", job.machine_text, plan.machine),
                    "remove --machine, or make a plan for that machine");
  }
  auto machine = machine::load_machine(plan.machine);
  search::check_simulable(plan.mapped.pcg, plan.mapped.schedule, plan.strategy);
  const BusyProgress progress("simulating the plan");
  auto program = lower::lower(plan.mapped, make_digits(plan, machine), machine.device.software,
                              plan.optimizer);
  auto simulation = predict::simulate(program, machine);
  return {std::move(plan),       std::move(machine), std::move(program),
          std::move(simulation), parse_memory(job),  resolve_margin(job)};
}

LoweredPlan lower_strategy(const Job& job, const std::string& strategy) {
  const auto setup = resolve(job);
  const auto best = cost_named_strategy(setup, strategy);
  auto plan = make_plan(setup, best);
  auto program = lower::lower(plan.mapped, make_digits(plan, setup.machine),
                              setup.machine.device.software, plan.optimizer, setup.mode);
  return {std::move(plan), setup.machine,        std::move(program),
          best.simulation, setup.options.memory, setup.options.margin};
}

search::Tightest LoweredPlan::fullest() const {
  return search::find_tightest(simulation, search::compute_memory_limits(machine, memory, margin));
}

std::string LoweredPlan::margin_text() const { return search::format_margin(memory, margin); }

std::string make_title(const LoweredPlan& lowered) {
  return fmt::format("{} on {} ({}), batch {}", lowered.plan.model, lowered.machine.name,
                     pluralize(lowered.machine.devices(), "device"), lowered.plan.batch);
}

}  // namespace tandem::cli

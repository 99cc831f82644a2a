#include "cli/estimate_strategy.h"

#include <fmt/format.h>

#include <iostream>

#include "base/table.h"
#include "base/text.h"
#include "predict/breakdown.h"
#include "predict/estimator.h"
#include "report/plan_text.h"
#include "report/simulation_text.h"
#include "strategies/grid.h"
#include "strategies/layer_kinds.h"

namespace tandem::cli {

namespace {

// Number of nodes from which steps are estimated. For fewer nodes, simulating all tasks takes less
// time than starting a command.
constexpr std::size_t kLeastNodes = 2000;

// Returns the parts of the step time, largest first: "compute (71 % of the step time), stall (11
// %)".
std::string bound_text(const predict::Simulation& s) {
  std::vector<std::pair<Seconds, std::string>> parts = {
      {s.compute, "compute"}, {s.exposed_comm, "exposed communication"}, {s.bubble, "stall"}};
  std::ranges::stable_sort(parts, std::greater{}, [](const auto& part) { return part.first; });
  std::vector<std::string> out;
  for (const auto& [time, what] : parts) {
    const auto share = 100 * (time / s.iteration);
    if (share < 1) continue;
    out.push_back(
        fmt::format("{} ({:.0f} %{})", what, share, out.empty() ? " of the step time" : ""));
  }
  return join(out, ", ");
}

std::string time_table(const predict::Simulation& s) {
  TextTable table({{""}, {"serialized", Align::kRight}, {"exposed", Align::kRight}});
  for (const auto kind : predict::kReportedKinds) {
    Seconds sum;
    for (const auto& [own, time] : s.serialized) {
      if (predict::to_reported_kind(own) == kind) sum += time;
    }
    if (sum > Seconds{}) table.add({std::string(kind), format_seconds(sum.value), ""});
  }
  table.add({"communication", "", format_seconds(s.exposed_comm.value)});
  table.add({"stall", "", format_seconds(s.bubble.value)});
  return table.to_text();
}

}  // namespace

std::optional<Estimated> estimate_strategy(const Job& job, const std::string& strategy) {
  const bool as_it_is = job.task.task == "pretrain" && job.task.freeze.empty();
  if (!as_it_is || job.stale_weights || !is_setting(strategy)) return std::nullopt;
  auto setup = resolve_folded(job, kLeastNodes);
  if (!setup) return std::nullopt;
  // Interference is known only for the whole step. An estimate cannot tell which part of it is
  // compute.
  if (setup->machine.device.software.interference > 0) return std::nullopt;
  const auto limits = setup->memory_limits();
  const strategies::Problem problem(setup->graph, setup->digits);
  std::optional<search::Evaluated> best;
  strategies::Family family{};
  for (const auto& setting :
       complete(strategies::parse_setting(strategy, job.setting_flags), problem)) {
    const predict::Training training{setup->dtype, setup->options.optimizer,
                                     setup->get_precision(setting.family)};
    predict::Estimator estimator(setup->model, setup->machine, training);
    auto estimate = estimator.estimate(setting, setup->batch);
    if (!estimate || estimate->is_rough()) return std::nullopt;
    auto costed = search::make_evaluated(to_text(setting), std::move(estimate->step), limits);
    if (best && !search::is_better(costed, *best)) continue;
    best = std::move(costed);
    family = setting.family;
  }
  if (!best) return std::nullopt;
  auto plan = make_plan(*setup, *best);
  plan.mapped.schedule.precision = setup->get_precision(family);
  const auto memory = search::find_tightest(best->simulation, limits);
  return Estimated{std::move(plan),
                   setup->machine,
                   std::move(best->simulation),
                   memory,
                   setup->options.margin,
                   setup->margin_text(),
                   strategies::count_tokens(setup->graph),
                   setup->model.settings.size("layers")};
}

void print(const Estimated& e, const Advice& advice) {
  const auto& s = e.simulation;
  std::cout << fmt::format("{} on {} ({}), batch {}, pretrain, {}, {}, strategy {}\n\n",
                           e.plan.model, e.machine.name, pluralize(e.machine.devices(), "device"),
                           e.plan.batch, name(e.plan.dtype), name(e.plan.optimizer),
                           e.plan.strategy);
  const report::Peak peak{.memory = e.memory.needs, .when = {}, .largest = {}, .largest_bytes = {}};
  std::cout << report::headline_text(s, {.batch = e.plan.batch,
                                         .tokens = e.tokens,
                                         .memory = e.memory,
                                         .margin = e.margin_text,
                                         .parallelism = to_text(compute_parallelism(e.plan))})
            << fitting_line(advice);
  std::cout << fmt::format("  bound by    {}\n", bound_text(s));
  std::cout << fmt::format(
      "  estimated   three layers represent all {}; --exact simulates every task\n\n", e.layers);
  std::cout << faster_text(advice) << "Time of one step, on the busiest device:\n"
            << time_table(s) << "\nMemory at the peak, on the fullest device:\n"
            << report::memory_table(peak);
}

Json to_json(const Estimated& e, const Advice& advice) {
  Json out = describe_costed_plan(e.plan);
  out["task"] = "pretrain";
  out["estimated"] = true;
  out.update(simulation_json(
      e.simulation, {.batch = e.plan.batch, .tokens = e.tokens, .devices = e.machine.devices()}));
  out.update(limit_json(e.margin, e.memory.limit));
  out["feasible"] = e.memory.fits();
  add_advice(out, advice, e.memory.fits());
  out["bound_by"] = bound_text(e.simulation);
  return out;
}

}  // namespace tandem::cli

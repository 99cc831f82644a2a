// tandem report: writes an HTML page that shows a plan.
#include "cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "cli/configurations.h"
#include "cli/interrupt.h"
#include "cli/new_file.h"
#include "cli/progress.h"
#include "cli/read_plan.h"
#include "lower/lower.h"
#include "report/report_data.h"
#include "report/report_page.h"
#include "search/explore.h"
#include "strategies/layer_kinds.h"
#include "strategies/setting_groups.h"

namespace tandem::cli {

namespace {

constexpr double kCompareSeconds = 10;

struct ReportFlags {
  bool json = false;
  std::string path, output;
  double compare = kCompareSeconds;
  unsigned threads = 0;
};

struct StrategyComparison {
  std::vector<report::ComparedStrategy> strategies;
  std::size_t untried = 0;
};

// Simulates the known strategies for `setup`, baselines first, for at most `seconds`.
StrategyComparison compare_strategies(const Setup& setup, double seconds, unsigned threads) {
  const strategies::Problem problem(setup.graph, setup.digits);
  const auto begin = std::chrono::steady_clock::now();
  const Interrupt interrupt;
  Progress progress;
  const auto explored = search::explore(
      {make_case(setup, problem)}, {strategies::list_named_settings("all", problem)},
      {.threads = threads,
       .progress =
           [&](std::size_t done, std::size_t of) {
             progress.show(fmt::format("comparing strategies: {} of {}", done, of));
           },
       .stop =
           [&] {
             const std::chrono::duration<double> so_far = std::chrono::steady_clock::now() - begin;
             return Interrupt::is_requested() || so_far.count() > seconds;
           }});
  const auto front = find_pareto_front(explored.points, list_points(explored));
  StrategyComparison out;
  out.untried = explored.asked - explored.points.size() - explored.refused.size();
  out.strategies.reserve(explored.points.size());
  for (std::size_t i = 0; i < explored.points.size(); ++i) {
    const auto& point = explored.points[i];
    out.strategies.push_back({.name = point.name,
                              .family = point.name.substr(0, point.name.find(':')),
                              .iteration = point.simulation.iteration,
                              .memory = point.simulation.memory,
                              .feasible = point.feasible,
                              .is_front = std::ranges::binary_search(front, i)});
  }
  return out;
}

// Returns the setup of a plan. Returns nullopt if its model cannot be built here, with the reason
// in `why_not`.
std::optional<Setup> resolve_setup(const plan::Plan& plan, std::string& why_not) {
  Job job;
  job.model_text = plan.model;
  job.machine_text = plan.machine;
  job.batch = plan.batch;
  job.optimizer = name(plan.optimizer);
  job.dtype = name(plan.dtype);
  if (is_half(plan.dtype)) {
    const auto& precision = plan.mapped.schedule.precision;
    job.master = precision.master ? "fp32" : "none";
    job.grad_dtype = name(precision.gradient(plan.dtype));
  }
  job.stale_weights = plan.mapped.schedule.is_delayed();
  try {
    return resolve(job);
  } catch (const UserError& error) {
    why_not = error.what();
    return std::nullopt;
  }
}

void write_page(const std::string& path, const LoweredPlan& lowered, report::ReportInput input) {
  const auto tokens = strategies::count_tokens(graph::erase_parallelism(lowered.program.pcg));
  input.configurations = list_configurations(lowered.plan, lowered.machine);
  input.headline = describe_costed_plan(lowered.plan);
  input.headline["parallelism"] = to_text(compute_parallelism(lowered.plan));
  input.headline["task"] = find_task_name(lowered.program);
  input.headline.update(simulation_json(
      lowered.simulation,
      {.batch = lowered.plan.batch, .tokens = tokens, .devices = lowered.machine.devices()}));
  write_file(path, report::report_page(report::report_data(input)));
}

void run(const ReportFlags& flags) {
  const auto lowered = read_and_lower(flags.path);
  const auto view = make_plan_view(lowered);
  report::ReportInput input{.view = view, .title = make_plan_title(lowered)};
  const auto setup = resolve_setup(lowered.plan, input.no_strategies);
  if (setup) {
    input.model = &setup->graph;
    if (flags.compare > 0) {
      auto compared =
          compare_strategies(*setup, flags.compare, resolve_thread_count(flags.threads));
      input.strategies = std::move(compared.strategies);
      input.untried = compared.untried;
    }
  }
  const auto count = input.strategies.size();
  write_page(flags.output, lowered, std::move(input));
  if (flags.json) {
    Json out = describe_plan(lowered.plan);
    out["report"] = flags.output;
    out["strategies"] = count;
    return print_json(out);
  }
  std::cout << fmt::format("{}: {}\n", flags.output, make_plan_title(lowered));
}

}  // namespace

void write_report(const std::string& path, const Setup& setup, const search::Result& result) {
  auto plan = make_plan(setup, *result.best);
  auto program = lower::lower(plan.mapped, make_digits(plan, setup.machine),
                              setup.machine.device.software, plan.optimizer, setup.mode);
  // Includes the timeline of all devices.
  auto simulation = predict::simulate(program, setup.machine);
  const LoweredPlan lowered{std::move(plan),       setup.machine,        std::move(program),
                            std::move(simulation), setup.options.memory, setup.options.margin};
  const auto view = make_plan_view(lowered);
  auto compared = compare_strategies(setup, kCompareSeconds, setup.options.threads);
  write_page(path, lowered,
             {.view = view,
              .title = make_plan_title(lowered),
              .strategies = std::move(compared.strategies),
              .untried = compared.untried,
              .found = &result,
              .model = &setup.graph});
}

void add_report(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<ReportFlags>();
  auto* command = add_command(app, "report", "write a plan as a page for a browser",
                              "report plan.json -o plan.html", flags->json);
  command->add_option("plan", flags->path, "a plan file")->required();
  command->add_option("-o,--output", flags->output, "write the page to this file")
      ->required()
      ->check(kFile);
  command
      ->add_option("--compare", flags->compare,
                   "seconds for simulating known strategies to compare with; 0: no comparison")
      ->check(kNotNegative)
      ->capture_default_str();
  add_threads_flag(*command, flags->threads);
  add_quiet_flag(*command);
  command->callback([flags] { run(*flags); });
}

}  // namespace tandem::cli

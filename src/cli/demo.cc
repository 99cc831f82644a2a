// tandem demo: shows planning and training in about a minute. Plans a network for two processes on
// this computer, trains it with that plan and with data parallelism, and compares times and losses.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/error.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "cli/progress.h"
#include "cli/run_plan.h"
#include "report/plan_text.h"

namespace tandem::cli {

namespace {

constexpr const char* kModel = "mlp:layers=4,hidden=2048,inputs=2048,outputs=2048";
constexpr const char* kMachine = "local:2";
constexpr std::int64_t kSteps = 20;
// Time limit of each training in seconds. A slow or busy computer runs fewer steps, so that the
// demo ends within two minutes.
constexpr double kSeconds = 35;
// Largest relative difference of two losses that count as equal. Sums of fp32 numbers in another
// order differ by some 1e-6 of a loss.
constexpr double kSameLoss = 1e-5;

void say(const std::string& text) {
  if (!is_quiet()) std::cerr << text << std::endl;
}

// Returns the largest relative difference of the losses over the steps that both ran.
double find_largest_difference(const Json& a, const Json& b) {
  const auto x = a["loss"].get<std::vector<double>>();
  const auto y = b["loss"].get<std::vector<double>>();
  double worst = 0;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    worst = std::max(worst, std::abs(x[i] - y[i]) / std::abs(y[i]));
  }
  return worst;
}

struct DemoComparison {
  plan::Plan plan;
  Json planned;
  Json data_parallel;
  double difference = 0;
};

Json run(const plan::Plan& plan, const std::string& what) {
  say(fmt::format("training with {}: {} steps in two processes", what, kSteps));
  return run_plan(plan, {.steps = kSteps, .seconds = kSeconds});
}

DemoComparison compare() {
  say(fmt::format("planning {} for {}", kModel, kMachine));
  Job job;
  job.model_text = kModel;
  job.machine_text = kMachine;
  const auto setup = resolve_for_training(job);
  const auto found = find_plan(setup);
  const auto dp = cost_named_strategy(setup, "dp");
  if (!found.best || !dp.feasible) {
    throw UserError("plan", kModel, fmt::format("does not fit on {}", kMachine),
                    "free memory on this computer");
  }
  DemoComparison out;
  out.plan = make_plan(setup, *found.best);
  out.planned = run(out.plan, "the plan");
  out.data_parallel = run(make_plan(setup, dp), "data parallelism");
  out.difference = find_largest_difference(out.planned, out.data_parallel);
  return out;
}

Json comparison_json(const DemoComparison& comparison) {
  Json out;
  out["plan"] = comparison.planned;
  out["data_parallel"] = comparison.data_parallel;
  out["largest_loss_difference"] = comparison.difference;
  out["same_loss"] = comparison.difference <= kSameLoss;
  return out;
}

// Returns a row of the table of step times. `unit` is the measured time of the plan in seconds.
std::vector<std::string> make_row(const std::string& what, const Json& result, double unit) {
  const auto measured = result["step_s_median"].get<double>();
  return {what, format_seconds(result["predicted_step_s"].get<double>()), format_seconds(measured),
          fmt::format("{:.2f} x", measured / unit)};
}

void print(const DemoComparison& comparison) {
  const auto& planned = comparison.planned;
  const auto& dp = comparison.data_parallel;
  const auto machine = machine::load_machine(kMachine);
  std::cout << fmt::format("{} on {}, batch {}\n\n", kModel, kMachine, comparison.plan.batch);
  std::cout << "Layout of each operator:\n"
            << report::layouts_text(comparison.plan.mapped, machine,
                                    make_digits(comparison.plan, machine));
  TextTable table({{"step time"},
                   {"predicted", Align::kRight},
                   {"measured", Align::kRight},
                   {"vs plan", Align::kRight}});
  const auto unit = planned["step_s_median"].get<double>();
  table.add(make_row("plan", planned, unit));
  table.add(make_row("data parallelism", dp, unit));
  std::cout << "\n" << table.to_text();
  const auto steps = std::min(planned["loss"].size(), dp["loss"].size());
  const auto last = [&](const Json& result) { return result["loss"][steps - 1].get<double>(); };
  std::cout << fmt::format(
      "\nThe losses of {} steps agree within {:.1e} (relative): the last ones are {:.6g} and "
      "{:.6g}.\n",
      steps, comparison.difference, last(planned), last(dp));
  std::cout << "`tandem profile` measures this computer for better predictions.\n";
}

int run_demo(bool json) {
  check_worker_is_built("demo");
  const auto comparison = compare();
  if (!(comparison.difference <= kSameLoss)) {
    throw UserError(
        "runtime", "demo",
        fmt::format("the losses with the plan and with data parallelism differ by {:.1e} "
                    "(relative), more than {:.0e}",
                    comparison.difference, kSameLoss));
  }
  if (json) {
    print_json(comparison_json(comparison));
  } else {
    print(comparison);
  }
  return ExitCode::kDone;
}

}  // namespace

void add_demo(CLI::App& app, int& exit_code) {
  auto json = std::make_shared<bool>(false);
  auto* command = add_command(
      app, "demo", "plan, train and compare a small network on this computer, in about a minute",
      "demo", *json);
  add_quiet_flag(*command);
  command->callback([json, &exit_code] { exit_code = run_demo(*json); });
}

}  // namespace tandem::cli

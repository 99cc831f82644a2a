// tandem simulate: predicts the step time and memory of a known strategy or a plan.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/text.h"
#include "cli/advice.h"
#include "cli/emphasis.h"
#include "cli/estimate_strategy.h"
#include "cli/host.h"
#include "cli/lowered.h"
#include "cli/madmax.h"
#include "cli/new_file.h"
#include "cli/progress.h"
#include "cli/read_plan.h"
#include "plan/json.h"
#include "report/plan_text.h"
#include "report/simulation_text.h"
#include "report/trace.h"
#include "strategies/layer_kinds.h"

namespace tandem::cli {

namespace {

struct SimulateFlags {
  bool json = false;
  Job job;
  MadMaxFiles madmax;
  std::string strategy = "dp";
  bool exact = false;
  bool tasks = false;
  std::string trace;               // file for the timeline; empty: none
  std::string output;              // file for the plan; empty: none
  std::vector<std::string> given;  // given flags among those that some inputs or tasks exclude
};

// Throws UserError if a flag or the strategy concerns training and the task is inference.
void check_task(const SimulateFlags& flags) {
  if (flags.job.task.mode() != lower::Mode::kInference) return;
  for (const auto& [flag, why] :
       {std::pair("--optimizer", "updates no weights"),
        std::pair("--stale-weights", "updates no weights"),
        std::pair("--master", "updates no weights"), std::pair("--grad-dtype", "has no gradients"),
        std::pair("--recompute", "has no backward pass")}) {
    if (std::ranges::find(flags.given, flag) == flags.given.end()) continue;
    throw UserError("flag", flag,
                    fmt::format("cannot be used with --task inference, which {}", why),
                    "leave it out");
  }
  const bool recomputes =
      is_setting(flags.strategy) &&
      strategies::parse_setting(flags.strategy).recompute != strategies::Recompute::kNone;
  if (!recomputes) return;
  throw UserError("strategy", flags.strategy,
                  "sets recompute, and --task inference has no backward pass",
                  "remove recompute from the strategy");
}

// Returns an estimate of the job. Returns nullopt if the output needs the simulation of all tasks.
std::optional<Estimated> estimate_job(const SimulateFlags& flags) {
  if (flags.exact || flags.tasks || is_plan_file(flags.job.model_text)) return std::nullopt;
  if (!flags.trace.empty() || !flags.output.empty()) return std::nullopt;
  if (flags.job.machine_text.empty()) return std::nullopt;
  return estimate_strategy(flags.job, flags.strategy);
}

LoweredPlan lower_job(const SimulateFlags& flags) {
  if (is_plan_file(flags.job.model_text)) return lower_plan(flags.job, flags.given);
  if (flags.job.machine_text.empty()) {
    (void)load_model(flags.job.model_text);  // reports errors in the model first
    throw CLI::RequiredError("--machine");
  }
  return lower_strategy(flags.job, flags.strategy);
}

bool is_inference(const LoweredPlan& s) { return s.program.mode == lower::Mode::kInference; }

std::int64_t count_tokens(const LoweredPlan& s) {
  return strategies::count_tokens(graph::erase_parallelism(s.plan.mapped.pcg));
}

// Returns advice on how to change a named strategy; empty for plans.
Advice find_advice(const SimulateFlags& flags, const std::string& strategy,
                   const search::Tightest& memory) {
  if (is_plan_file(flags.job.model_text) || !is_setting(flags.strategy)) return {};
  return advise(flags.job, strategy, memory.fits());
}

void print_headline(const LoweredPlan& s, const std::vector<predict::Share>& shares,
                    const Advice& advice) {
  std::cout << fmt::format(
      "{}, {}, {}{}, strategy {}\n\n", make_title(s), find_task_name(s.program), name(s.plan.dtype),
      is_inference(s) ? "" : fmt::format(", {}", name(s.plan.optimizer)), s.plan.strategy);
  std::cout << report::headline_text(s.simulation,
                                     {.batch = s.plan.batch,
                                      .tokens = count_tokens(s),
                                      .memory = s.fullest(),
                                      .margin = s.margin_text(),
                                      .parallelism = to_text(compute_parallelism(s.plan))})
            << fitting_line(advice);
  std::cout << fmt::format("  bound by    {}\n\n",
                           report::bound_text(shares, s.simulation, s.machine, s.program.digits))
            << faster_text(advice);
}

void print(const LoweredPlan& s, const Advice& advice) {
  const auto shares = predict::break_down(s.program, s.simulation);
  const auto peak = report::find_peak(s.program, s.fullest().needs);
  print_headline(s, shares, advice);
  std::cout << make_bold("Time of one step, on the busiest device:") << "\n"
            << report::time_table(shares, s.simulation);
  const auto moves = report::communication_text(shares, s.machine, s.program.digits);
  if (!moves.empty()) {
    std::cout << "\n" << make_bold("Communication, per device and step:") << "\n" << moves;
  }
  std::cout << "\n"
            << make_bold(
                   fmt::format("Memory at the peak, on the fullest device, in {}:", peak.when))
            << "\n"
            << report::memory_table(peak);
}

Json simulated_json(const LoweredPlan& s, const Advice& advice) {
  Json out = describe_costed_plan(s.plan);
  out["task"] = find_task_name(s.program);
  if (is_inference(s)) out["optimizer"] = nullptr;
  out.update(simulation_json(
      s.simulation,
      {.batch = s.plan.batch, .tokens = count_tokens(s), .devices = s.machine.devices()}));
  const auto memory = s.fullest();
  out.update(limit_json(s.margin, memory.limit));
  out["feasible"] = memory.fits();
  add_advice(out, advice, memory.fits());
  out.update(report::details_json(s.program, s.simulation, s.machine,
                                  report::find_peak(s.program, memory.needs)));
  return out;
}

// Writes the strategy as a plan, which other commands read.
void write_plan(const SimulateFlags& flags, const LoweredPlan& s) {
  for (const auto* flag : {"--task", "--freeze"}) {
    if (std::ranges::find(flags.given, flag) == flags.given.end()) continue;
    throw UserError("flag", flag, "cannot be used with -o: a plan trains the whole model",
                    "leave out one of the two");
  }
  write_file(flags.output, plan::to_json(s.plan));
}

void write_trace(const SimulateFlags& flags, const LoweredPlan& s) {
  const auto trace =
      report::make_chrome_trace(s.program, s.machine, s.simulation,
                                fmt::format("{}, strategy {}", make_title(s), s.plan.strategy));
  write_file(flags.trace, trace.json);
  if (trace.classes_shown == trace.classes) return;
  remark(
      fmt::format("{}: shows {} of {} classes of equivalent devices, including the busiest, "
                  "to keep the file small enough to open",
                  flags.trace, trace.classes_shown, trace.classes));
}

void run(const SimulateFlags& flags) {
  if (flags.madmax.is_given()) return simulate_madmax(flags.madmax, flags.json);
  if (flags.job.model_text.empty()) throw CLI::RequiredError("model");
  check_task(flags);
  expect_writable(flags.output);
  expect_writable(flags.trace);
  if (const auto estimated = estimate_job(flags)) {
    note_missing_peak(estimated->machine, estimated->plan.dtype);
    const auto advice = find_advice(flags, estimated->plan.strategy, estimated->memory);
    if (flags.json) return print_json(to_json(*estimated, advice));
    return print(*estimated, advice);
  }
  const auto s = lower_job(flags);
  note_missing_peak(s.machine, s.plan.dtype);
  if (!flags.output.empty()) write_plan(flags, s);
  if (!flags.trace.empty()) write_trace(flags, s);
  if (flags.tasks) {
    std::cout << lower::to_text(s.program);
    return;
  }
  const auto advice = find_advice(flags, s.plan.strategy, s.fullest());
  if (flags.json) return print_json(simulated_json(s, advice));
  print(s, advice);
}

}  // namespace

void add_simulate(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<SimulateFlags>();
  auto* command =
      add_command(app, "simulate", "predict the time and memory of a strategy or a plan",
                  "simulate bert_large --machine summit:8 --strategy megatron", flags->json);
  flags->job.add_flags(*command);
  command->get_option("model")->required(false)->description(
      "NAME, NAME:key=value,... or a plan file");
  command->get_option("--machine")->required(false);
  command
      ->add_option("--strategy", flags->strategy,
                   "dp, megatron:tp=N, taso+flexflow, best_baseline, ... "
                   "(docs/reference/strategies.md)")
      ->capture_default_str();
  flags->job.add_memory_flags(*command);
  flags->job.task.add_flags(*command);
  command
      ->add_option("--recompute", flags->job.setting_flags.recompute,
                   "activations to recompute in the backward pass (activation checkpointing)")
      ->check(CLI::IsMember({"none", "selective", "save_matmuls", "full"}));
  command
      ->add_option("--schedule", flags->job.setting_flags.schedule,
                   "schedule of a pipeline (megatron:pp=N)")
      ->check(CLI::IsMember({"gpipe", "1f1b", "interleaved"}));
  command->add_flag("--exact", flags->exact, "simulate every task, also for large networks");
  command
      ->add_option("--trace", flags->trace,
                   "write the timeline to this file as a Chrome trace, for ui.perfetto.dev")
      ->check(kFile);
  command->add_option("-o,--output", flags->output, "write the strategy as a plan to this file")
      ->check(kFile);
  add_quiet_flag(*command);
  command->add_flag("--tasks", flags->tasks, "print the tasks that every device executes")
      ->excludes("--json");
  flags->madmax.add_flags(*command);
  command->callback([flags, command] {
    for (const char* flag :
         {"--batch", "--optimizer", "--dtype", "--master", "--grad-dtype", "--strategy",
          "--stale-weights", "--task", "--freeze", "--recompute", "--schedule"}) {
      if (command->count(flag) > 0) flags->given.emplace_back(flag);
    }
    run(*flags);
  });
}

}  // namespace tandem::cli

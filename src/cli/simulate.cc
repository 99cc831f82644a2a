// tandem simulate: the time and memory of a known strategy, or of a plan.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/text.h"
#include "cli/advice.h"
#include "cli/emphasis.h"
#include "cli/estimated.h"
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
  std::string trace;               // a file; empty: none
  std::string output;              // the same
  std::vector<std::string> given;  // of those that some input or task has no use for
};

// Inference trains nothing.
void check_task(const SimulateFlags& flags) {
  if (flags.job.task.phase() != lower::Phase::kInference) return;
  for (const auto& [flag, why] :
       {std::pair("--optimizer", "updates no weights"),
        std::pair("--stale-weights", "updates no weights"),
        std::pair("--master", "updates no weights"), std::pair("--grad-dtype", "has no gradients"),
        std::pair("--recompute", "has no backward pass")}) {
    if (std::ranges::find(flags.given, flag) == flags.given.end()) continue;
    throw UserError("flag", flag, fmt::format("cannot be given with --task inference: it {}", why));
  }
  const bool recomputes =
      is_setting(flags.strategy) && strategies::parse_setting(flags.strategy).recompute != "none";
  if (!recomputes) return;
  throw UserError("strategy", flags.strategy,
                  "recomputes for the backward pass, which --task inference has not",
                  "without recompute");
}

// Where nothing was asked for that needs the tasks.
std::optional<Estimated> estimate_job(const SimulateFlags& flags) {
  if (flags.exact || flags.tasks || is_plan_file(flags.job.model_text)) return std::nullopt;
  if (!flags.trace.empty() || !flags.output.empty()) return std::nullopt;
  if (flags.job.machine_text.empty()) return std::nullopt;
  return estimate_strategy(flags.job, flags.strategy);
}

Lowered lower_job(const SimulateFlags& flags) {
  if (is_plan_file(flags.job.model_text)) return lower_plan(flags.job, flags.given);
  if (flags.job.machine_text.empty()) {
    (void)load_model(flags.job.model_text);  // what is wrong with a file is told first
    throw CLI::RequiredError("--machine");
  }
  return lower_strategy(flags.job, flags.strategy);
}

bool infers(const Lowered& s) { return s.program.phase == lower::Phase::kInference; }

std::int64_t tokens_of(const Lowered& s) {
  return strategies::count_tokens(graph::erase_parallelism(s.plan.mapped.pcg));
}

// What to change of a named strategy; plans have none.
Advice advice_on(const SimulateFlags& flags, const std::string& strategy,
                 const search::Tightest& memory) {
  if (is_plan_file(flags.job.model_text) || !is_setting(flags.strategy)) return {};
  return advise(flags.job, strategy, memory.fits());
}

void print_headline(const Lowered& s, const std::vector<predict::Share>& shares,
                    const Advice& advice) {
  std::cout << fmt::format(
      "{}, {}, {}{}, strategy {}\n\n", title(s), task_of(s.program), name(s.plan.dtype),
      infers(s) ? "" : fmt::format(", {}", name(s.plan.optimizer)), s.plan.strategy);
  std::cout << report::headline_text(s.simulation, {.batch = s.plan.batch,
                                                    .tokens = tokens_of(s),
                                                    .memory = s.fullest(),
                                                    .margin = s.margin_text(),
                                                    .parallelism = to_text(parallelism_of(s.plan))})
            << fitting_line(advice);
  std::cout << fmt::format("  bound by    {}\n\n",
                           report::bound_text(shares, s.simulation, s.machine, s.program.digits))
            << faster_text(advice);
}

void print(const Lowered& s, const Advice& advice) {
  const auto shares = predict::break_down(s.program, s.simulation);
  const auto peak = report::peak_of(s.program, s.fullest().needs);
  print_headline(s, shares, advice);
  std::cout << strong("Where the time goes, on the busiest device:") << "\n"
            << report::time_table(shares, s.simulation);
  const auto moves = report::communication_text(shares, s.machine, s.program.digits);
  if (!moves.empty()) {
    std::cout << "\n" << strong("What communicates, per device and step:") << "\n" << moves;
  }
  std::cout << "\n"
            << strong(fmt::format("What the fullest device holds at the peak, in {}:", peak.when))
            << "\n"
            << report::memory_table(peak);
}

Json to_json(const Lowered& s, const Advice& advice) {
  Json out = echo_costed(s.plan);
  out["task"] = task_of(s.program);
  if (infers(s)) out["optimizer"] = nullptr;
  out.update(simulation_json(
      s.simulation,
      {.batch = s.plan.batch, .tokens = tokens_of(s), .devices = s.machine.devices()}));
  const auto memory = s.fullest();
  out.update(limit_json(s.margin, memory.limit));
  out["feasible"] = memory.fits();
  add_advice(out, advice, memory.fits());
  out.update(report::details_json(s.program, s.simulation, s.machine,
                                  report::peak_of(s.program, memory.needs)));
  return out;
}

// The strategy as a plan, which other commands read.
void write_plan(const SimulateFlags& flags, const Lowered& s) {
  for (const auto* flag : {"--task", "--freeze"}) {
    if (std::ranges::find(flags.given, flag) == flags.given.end()) continue;
    throw UserError("flag", flag, "cannot be given with -o: a plan is of training a whole model");
  }
  write_file(flags.output, plan::to_json(s.plan));
}

void write_trace(const SimulateFlags& flags, const Lowered& s) {
  const auto trace =
      report::chrome_trace(s.program, s.machine, s.simulation,
                           fmt::format("{}, strategy {}", title(s), s.plan.strategy));
  write_file(flags.trace, trace.json);
  if (trace.classes_shown == trace.classes) return;
  remark(
      fmt::format("{}: {} of {} classes of devices, the busiest among them; all would be "
                  "too large to open",
                  flags.trace, trace.classes_shown, trace.classes));
}

void run(const SimulateFlags& flags) {
  if (flags.madmax.given()) return simulate_madmax(flags.madmax, flags.json);
  if (flags.job.model_text.empty()) throw CLI::RequiredError("model");
  check_task(flags);
  expect_writable(flags.output);
  expect_writable(flags.trace);
  if (const auto estimated = estimate_job(flags)) {
    note_peak(estimated->machine, estimated->plan.dtype);
    const auto advice = advice_on(flags, estimated->plan.strategy, estimated->memory);
    if (flags.json) return print_json(to_json(*estimated, advice));
    return print(*estimated, advice);
  }
  const auto s = lower_job(flags);
  note_peak(s.machine, s.plan.dtype);
  if (!flags.output.empty()) write_plan(flags, s);
  if (!flags.trace.empty()) write_trace(flags, s);
  if (flags.tasks) {
    std::cout << lower::to_text(s.program);
    return;
  }
  const auto advice = advice_on(flags, s.plan.strategy, s.fullest());
  if (flags.json) return print_json(to_json(s, advice));
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
      "NAME, NAME:key=value,... or a plan.json");
  command->get_option("--machine")->required(false);
  command
      ->add_option("--strategy", flags->strategy,
                   "dp, megatron:tp=N, taso+flexflow, best_baseline, ... (docs/strategies.md)")
      ->capture_default_str();
  flags->job.add_memory_flags(*command);
  flags->job.task.add_flags(*command);
  command
      ->add_option("--recompute", flags->job.beside.recompute,
                   "what the backward pass recomputes: none, selective, save_matmuls, full")
      ->check(CLI::IsMember({"none", "selective", "save_matmuls", "full"}));
  command
      ->add_option("--schedule", flags->job.beside.schedule,
                   "of a pipeline (megatron:pp=N): gpipe, 1f1b or interleaved")
      ->check(CLI::IsMember({"gpipe", "1f1b", "interleaved"}));
  command->add_flag("--exact", flags->exact, "simulate every task of a network that is large, too");
  command
      ->add_option("--trace", flags->trace, "write the timeline to this file, for ui.perfetto.dev")
      ->check(kFile);
  command->add_option("-o,--output", flags->output, "write the strategy's plan to this file")
      ->check(kFile);
  add_quiet_flag(*command);
  command->add_flag("--tasks", flags->tasks, "print the tasks every device executes")
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

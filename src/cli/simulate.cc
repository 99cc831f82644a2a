// tandem simulate: the time and memory of a known strategy, or of a plan.
#include <fmt/format.h>

#include <iostream>

#include "base/error.h"
#include "base/text.h"
#include "cli/lowered.h"
#include "cli/madmax.h"
#include "report/plan_text.h"

namespace tandem::cli {

namespace {

struct Flags {
  bool json = false;
  Job job;
  MadMaxFiles madmax;
  std::string strategy = "dp";
  bool tasks = false;
  std::vector<std::string> not_with_a_plan;  // those given
};

Lowered lower_job(const Flags& flags) {
  if (flags.job.model_text.ends_with(".json")) {
    return lower_plan(flags.job, flags.not_with_a_plan);
  }
  if (flags.job.machine_text.empty()) {
    throw UserError("flag", "--machine", "is needed with a model", "`tandem machines` lists them");
  }
  return lower_strategy(flags.job, flags.strategy);
}

void print(const Lowered& s) {
  const auto& sim = s.simulation;
  std::cout << fmt::format("{}, strategy {}\n\n", title(s), s.plan.strategy);
  std::cout << fmt::format("  iteration   {}\n  throughput  {} samples/s\n  MFU         {:.1f} %\n",
                           seconds_text(sim.iteration.value),
                           si(static_cast<double>(s.plan.batch) / sim.iteration.value),
                           100 * sim.mfu);
  std::cout << fmt::format("  memory      {} ({} of it weights and optimizer state)\n",
                           bytes_text(sim.memory.value), bytes_text(sim.persistent.value));
  std::cout << fmt::format("  compute {}, exposed communication {}, idle {}\n\n",
                           seconds_text(sim.compute.value), seconds_text(sim.exposed_comm.value),
                           seconds_text(sim.bubble.value));
  std::cout << "As if nothing overlapped:\n";
  for (const auto& [kind, time] : sim.serialized) {
    std::cout << fmt::format("  {:<16} {:>9}\n", kind, seconds_text(time.value));
  }
  std::cout << "\nWhat communicates, per device and step:\n"
            << report::communication_text(s.program, s.machine, sim);
}

void run(const Flags& flags) {
  if (flags.madmax.given()) return simulate_madmax(flags.madmax, flags.json);
  if (flags.job.model_text.empty()) throw CLI::RequiredError("model");
  const auto s = lower_job(flags);
  if (flags.tasks) {
    std::cout << to_text(s.program);
  } else if (flags.json) {
    Json out = echo(s.plan);
    out.update(simulation_json(s.simulation, s.plan.batch));
    print_json(out);
  } else {
    print(s);
  }
}

}  // namespace

void add_simulate(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<Flags>();
  auto* command =
      add_command(app, "simulate", "predict the time and memory of a strategy or a plan",
                  "simulate bert_large --machine summit:8 --strategy megatron", flags->json);
  flags->job.add_flags(*command);
  command->get_option("model")->required(false)->description(
      "NAME, NAME:key=value,... or a plan.json");
  command->get_option("--machine")->required(false);
  command
      ->add_option("--strategy", flags->strategy,
                   "dp, megatron:tp=N, best_baseline, ... (docs/strategies.md)")
      ->capture_default_str();
  command->add_flag("--tasks", flags->tasks, "print the tasks every device executes")
      ->excludes("--json");
  flags->madmax.add_flags(*command);
  command->callback([flags, command] {
    for (const char* flag : {"--batch", "--optimizer", "--dtype", "--master", "--grad-dtype",
                             "--strategy", "--stale-weights"}) {
      if (command->count(flag) > 0) flags->not_with_a_plan.emplace_back(flag);
    }
    run(*flags);
  });
}

}  // namespace tandem::cli

// tandem train: runs a plan, one process per device under mpirun, and reports times and losses.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "plan/json.h"

namespace tandem::cli {

namespace {

struct TrainFlags {
  bool json = false;
  Job job;
  std::int64_t devices = 0;
  std::string strategy;
  std::int64_t steps = 20;
  std::uint64_t seed = 0;
  std::vector<std::string> not_with_a_plan;  // those given
};

// A file in the temporary folder that goes when the object does.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("tandem-plan-{}.json", getpid())) {
    write_file(path_.string(), text);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

plan::Plan choose_plan(const TrainFlags& flags) {
  if (flags.job.model_text.ends_with(".json")) {
    for (const auto& flag : flags.not_with_a_plan) {
      throw UserError("flag", flag, "cannot be given with a plan, which has its own");
    }
    return plan::parse_plan(read_file(flags.job.model_text), flags.job.model_text);
  }
  Job job = flags.job;
  const auto devices = flags.devices > 0 ? flags.devices : default_processes();
  job.machine_text = fmt::format("local:{}", devices);
  const auto setup = resolve_for_training(job);
  if (flags.strategy.empty()) {
    const auto result = find_plan(setup);
    if (!result.best) {
      throw UserError("plan", setup.model.text, fmt::format("no plan fits {}", setup.machine.name),
                      "a smaller batch or more devices");
    }
    return make_plan(setup, *result.best);
  }
  const auto limits = search::memory_limits(setup.machine, setup.options.memory);
  const auto costed = cost_named_strategy(setup, flags.strategy);
  if (!costed.feasible) {
    throw UserError(
        "plan", costed.name,
        fmt::format("needs {}", search::shortage_text(search::tightest(costed.simulation, limits),
                                                      setup.machine)),
        "--memory, a smaller batch or more devices");
  }
  return make_plan(setup, costed);
}

// Throws UserError when this computer cannot run the plan.
void check_runs_here(const plan::Plan& plan, std::int64_t devices) {
  if (plan.dtype != DType::kFp32 && plan.dtype != DType::kFp64) {
    throw UserError("runtime", "train", fmt::format("cannot run {}", name(plan.dtype)),
                    "--dtype fp32 or fp64");
  }
  if (plan.mapped.schedule.is_delayed()) {
    throw UserError("runtime", "train", "cannot delay updates yet",
                    "a plan made without --stale-weights");
  }
  if (plan.mapped.schedule.ring) {
    throw UserError("runtime", "train", "cannot pass blocks round rings yet",
                    "a strategy without ring");
  }
  check_starts_here(plan.machine, devices, "plan for local:N");
}

Json train(const plan::Plan& plan, const TrainFlags& flags) {
  const auto devices = machine::load_machine(plan.machine).devices();
  check_runs_here(plan, devices);
  const TemporaryFile file(plan::to_json(plan));
  const auto arguments = fmt::format("{} --steps {} --seed {} {}", quoted(file.path()), flags.steps,
                                     flags.seed, progress_flag());
  Json out = Json::parse(run_worker(devices, arguments), nullptr, false);
  if (!out.is_object()) throw UserError("runtime", "tandem_worker", "did not print its result");
  out["predicted_step_s"] = plan.iteration.value;
  out.update(echo(plan));
  return out;
}

void print(const Json& result) {
  const auto losses = result["loss"].get<std::vector<double>>();
  std::cout << fmt::format("{} on {}, batch {}, strategy {}\n", result["model"].get<std::string>(),
                           result["machine"].get<std::string>(),
                           result["batch"].get<std::int64_t>(),
                           result["strategy"].get<std::string>());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    std::cout << fmt::format("step {:>4}  loss {:.6g}\n", i, losses[i]);
  }
  std::cout << fmt::format("step time {:.4g} ms (median), predicted {:.4g} ms\n",
                           1e3 * result["step_s_median"].get<double>(),
                           1e3 * result["predicted_step_s"].get<double>());
}

void run(const TrainFlags& flags) {
  check_worker_is_built("train");
  const auto result = train(choose_plan(flags), flags);
  if (flags.json) {
    print_json(result);
  } else {
    print(result);
  }
}

}  // namespace

void add_train(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<TrainFlags>();
  auto* command = add_command(app, "train", "train a network under a plan, on this computer",
                              "train mlp:layers=4,hidden=256 --devices 2 --steps 10", flags->json);
  flags->job.add_flags(*command);
  command->get_option("model")->description("NAME, NAME:key=value,... or a plan.json");
  command->remove_option(command->get_option("--machine"));
  command->add_option("--devices", flags->devices, "processes; default: one a core")
      ->check(kPositive);
  command->add_option("--strategy", flags->strategy,
                      "dp, megatron:tp=N, ... instead of the found plan");
  command->add_option("--steps", flags->steps, "steps to run")
      ->check(kPositive)
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "of weights and data")->capture_default_str();
  flags->job.add_search_flags(*command);
  command->get_option("--batch")->description(
      "global batch; default: a small one of the model's own");
  command->callback([flags, command] {
    for (const char* flag : {"--batch", "--optimizer", "--dtype", "--master", "--grad-dtype",
                             "--strategy", "--devices", "--memory", "--dims", "--stale-weights",
                             "--no-pipeline", "--budget", "--max-candidates", "--threads"}) {
      if (command->count(flag) > 0) flags->not_with_a_plan.emplace_back(flag);
    }
    run(*flags);
  });
}

}  // namespace tandem::cli

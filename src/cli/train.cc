// tandem train: trains under a plan, with one process per device under mpirun, and reports times
// and losses.
#include <fmt/format.h>

#include <initializer_list>
#include <iostream>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "cli/read_plan.h"
#include "cli/run_plan.h"
#include "plan/json.h"

namespace tandem::cli {

namespace {

struct TrainFlags {
  bool json = false;
  Job job;
  std::int64_t devices = 0;
  std::string strategy;
  TrainingRun run;
  std::vector<std::string> not_with_a_plan;      // given flags that a plan excludes
  std::vector<std::string> not_with_a_strategy;  // given flags that --strategy excludes
};

plan::Plan read_plan_for(const TrainFlags& flags) {
  const auto& path = flags.job.model_text;
  for (const auto& flag : flags.not_with_a_plan) {
    throw UserError("flag", flag, "cannot be used with a plan file, which determines it",
                    "leave it out, or make another plan with `tandem plan`");
  }
  auto plan = plan::parse_plan(read_file(path), path);
  const auto devices = machine::load_machine(plan.machine).devices();
  if (flags.devices > 0 && flags.devices != devices) {
    throw UserError(
        "plan", path,
        fmt::format("is for {}, and --devices is {}", pluralize(devices, "device"), flags.devices),
        fmt::format("use --devices {}, or make a plan for --machine local:{}", devices,
                    flags.devices));
  }
  return plan;
}

// Returns the default number of processes: one per GPU or per core, or the number that a launcher
// started.
std::int64_t count_default_devices(const std::string& kind) {
  return kind == "cpu" || detect_launcher() ? count_default_processes()
                                            : count_visible_devices(kind);
}

plan::Plan choose_plan(const TrainFlags& flags) {
  if (is_plan_file(flags.job.model_text)) return read_plan_for(flags);
  for (const auto& flag : flags.not_with_a_strategy) {
    if (flags.strategy.empty()) break;
    throw UserError("flag", flag, "cannot be used with --strategy, which replaces the search",
                    "leave out one of the two");
  }
  Job job = flags.job;
  const auto devices = flags.devices > 0 ? flags.devices : count_default_devices(flags.run.device);
  job.machine_text = fmt::format("local:{}", devices);
  const auto setup = resolve_for_training(job);
  if (flags.strategy.empty()) {
    const auto result = find_plan(setup);
    if (!result.best) {
      throw UserError("plan", setup.model.text,
                      fmt::format("no plan fits in the memory of {}", setup.machine.name),
                      "use a smaller --batch or more --devices");
    }
    return make_plan(setup, *result.best);
  }
  const auto limits = setup.memory_limits();
  const auto costed = cost_named_strategy(setup, flags.strategy);
  if (!costed.feasible) {
    throw UserError("plan", costed.name,
                    fmt::format("needs {}", search::format_shortage(
                                                search::find_tightest(costed.simulation, limits),
                                                setup.machine, setup.margin_text())),
                    "change --memory or --margin, or use a smaller --batch or more --devices");
  }
  return make_plan(setup, costed);
}

// Prints the losses of a run, each when its step has ended, below a line that says what runs. That
// line waits for the first step: a run that fails before has only its error message.
class LossPrinter {
 public:
  explicit LossPrinter(const plan::Plan& plan) : plan_(plan) {}

  // Prints the first line unless it was printed before.
  void print_plan() {
    if (printed_) return;
    printed_ = true;
    std::cout << fmt::format("{} on {}, batch {}, strategy {}\n", plan_.model, plan_.machine,
                             plan_.batch, plan_.strategy);
  }
  void print_step(std::int64_t step, double loss) {
    print_plan();
    std::cout << fmt::format("step {:>4}  loss {:.6g}\n", step, loss) << std::flush;
  }

 private:
  const plan::Plan& plan_;
  bool printed_ = false;
};

// Prints data, times and predictions of a run, below its losses.
void print_summary(const Json& result) {
  const auto& losses = result["loss"];
  const auto first = result["first_step"].get<std::size_t>();
  if (losses.empty()) {
    std::cout << fmt::format("nothing to do: the checkpoint is already at step {}\n", first);
    return;
  }
  if (result.contains("data")) {
    const auto samples = result["data"]["samples"].get<double>();
    const auto taken = static_cast<double>(first + losses.size()) * result["batch"].get<double>();
    std::cout << fmt::format("{} samples in {}, {:.3g} epochs so far\n", samples,
                             result["data"]["path"].get<std::string>(), taken / samples);
  }
  if (result["devices"].get<std::int64_t>() > 1) {
    std::cout << fmt::format("exposed communication {:.4g} ms per step\n",
                             1e3 * result["exposed_comm_s"].get<double>());
  }
  std::cout << fmt::format("step time {:.4g} ms (median)",
                           1e3 * result["step_s_median"].get<double>());
  // The devices of local:N are CPU cores, so their prediction does not apply to GPUs.
  const bool predicted = result["device"].get<std::string>() == "cpu" ||
                         !result["machine"].get<std::string>().starts_with("local");
  if (predicted) {
    std::cout << fmt::format(", predicted {:.4g} ms",
                             1e3 * result["predicted_step_s"].get<double>());
    if (is_measured_elsewhere(result["machine"].get<std::string>())) {
      std::cout << " for another computer: `tandem profile` measures this one";
    }
  }
  std::cout << "\n";
}

void train(const TrainFlags& flags, int& exit_code) {
  check_worker_is_built("train");
  // Reports missing GPUs before planning.
  if (flags.run.device != "cpu") count_visible_devices(flags.run.device);
  if (const auto world = detect_launcher(); world && world->rank > 0) {
    exit_code = join_worker();
    return;
  }
  const auto plan = choose_plan(flags);
  if (flags.json) return print_json(run_plan(plan, flags.run));
  LossPrinter losses(plan);
  const auto result = run_plan(plan, flags.run, [&losses](std::int64_t step, double loss) {
    losses.print_step(step, loss);
  });
  losses.print_plan();
  print_summary(result);
}

// Adds the flags that choose the processes: --devices, --device.
void add_device_flags(CLI::App& command, TrainFlags& flags) {
  command
      .add_option(
          "--devices", flags.devices,
          "number of processes; default: one per core or GPU, or as started by mpirun or srun")
      ->check(kPositive);
  command
      .add_option("--device", flags.run.device,
                  "device of each process: a CPU core (cpu) or a GPU (cuda)")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
}

// Adds the flags that describe the training: --steps, --data, --seed, --lr.
void add_training_flags(CLI::App& command, TrainingRun& run) {
  command
      .add_option("--steps", run.steps, "total number of steps, including those before --resume")
      ->check(kPositive)
      ->capture_default_str();
  command
      .add_option("--data", run.data,
                  "training data: a file of tokens (.bin, .u16, .u32) or of Criteo's data set "
                  "(.tsv, .txt), a directory with a directory of images (JPEG, PNG, PPM, PGM) for "
                  "each class, or a directory with an .npy file for each input; default: random "
                  "numbers")
      ->check(kFile);
  command
      .add_option("--seed", run.seed,
                  "RNG seed of weights and data; default: 0, or the checkpoint's")
      ->check(kWhole);
  command
      .add_option("--lr", run.rate,
                  "learning rate; default: 0.01 for sgd, else 0.001, or the checkpoint's")
      ->check(kNotNegative);
}

// Adds --checkpoint, and the flags that need it: --checkpoint-every, --resume.
void add_checkpoint_flags(CLI::App& command, TrainingRun& run) {
  auto* directory = command
                        .add_option("--checkpoint", run.checkpoints,
                                    "keep the two newest checkpoints in this directory")
                        ->check(kFile);
  command
      .add_option("--checkpoint-every", run.every,
                  "steps between checkpoints; default: as many as keep checkpoints below a "
                  "tenth of the time")
      ->check(kPositive)
      ->needs(directory);
  command
      .add_flag("--resume", run.resume,
                "continue from the newest checkpoint, under any plan of the same network")
      ->needs(directory);
}

// Returns the flags of `flags` that the command line gives.
std::vector<std::string> list_given_flags(const CLI::App& command,
                                          std::initializer_list<const char*> flags) {
  std::vector<std::string> out;
  for (const char* flag : flags) {
    if (command.count(flag) > 0) out.emplace_back(flag);
  }
  return out;
}

}  // namespace

void add_train(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<TrainFlags>();
  auto* command = add_command(app, "train", "train a network under a plan on this computer",
                              "train mlp:layers=4,hidden=256 --devices 2 --steps 10", flags->json);
  flags->job.add_flags(*command);
  command->get_option("model")->description("NAME, NAME:key=value,... or a plan file");
  command->remove_option(command->get_option("--machine"));
  add_device_flags(*command, *flags);
  command->add_option("--strategy", flags->strategy,
                      "train under this strategy instead of searching for a plan: dp, "
                      "megatron:tp=N, ... (docs/reference/strategies.md)");
  add_training_flags(*command, flags->run);
  add_checkpoint_flags(*command, flags->run);
  command
      ->add_option("--timeout", flags->run.timeout,
                   "seconds after which a step counts as failed; default: 20 times the longest "
                   "step, at least 60; 600 for the first step")
      ->check(kPositive);
  flags->job.add_search_flags(*command);
  command->get_option("--batch")->description(
      "global batch size; default: a small one that depends on the model");
  command->callback([flags, command, &exit_code] {
    flags->not_with_a_plan = list_given_flags(
        *command,
        {"--batch",       "--optimizer", "--dtype",          "--master",  "--grad-dtype",
         "--strategy",    "--memory",    "--margin",         "--dims",    "--stale-weights",
         "--no-pipeline", "--budget",    "--max-candidates", "--threads", "--pipeline",
         "--search",      "--without",   "--alpha",          "--k",       "--max-rewrites"});
    flags->not_with_a_strategy =
        list_given_flags(*command, {"--search", "--without", "--alpha", "--k", "--max-rewrites"});
    train(*flags, exit_code);
  });
}

}  // namespace tandem::cli

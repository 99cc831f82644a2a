#include "cli/run_plan.h"

#include <fmt/format.h>

#include "base/error.h"
#include "cli/launch.h"
#include "machine/parse.h"
#include "plan/json.h"

namespace tandem::cli {

namespace {

void check_runs_here(const plan::Plan& plan, std::int64_t devices) {
  if (plan.dtype == DType::kFp16) {
    throw UserError("runtime", "train", "cannot run fp16", "use --dtype bf16, fp32 or fp64");
  }
  check_starts_here(plan.machine, devices, "make a plan for --machine local:N with fewer devices");
}

// Returns the worker's arguments, quoted for the shell.
std::string make_worker_arguments(const std::string& plan, const TrainingRun& run) {
  auto out =
      fmt::format("{} --steps {} {}", quote_for_shell(plan), run.steps, make_progress_flags());
  const auto add = [&](const char* flag, const auto& value) {
    if (value) out += fmt::format(" {} {}", flag, *value);
  };
  add("--seed", run.seed);
  add("--lr", run.rate);
  add("--seconds", run.seconds);
  add("--timeout", run.timeout);
  add("--checkpoint-every", run.every);
  if (!run.checkpoints.empty()) out += " --checkpoint " + quote_for_shell(run.checkpoints);
  if (run.measure) out += " --measure yes";
  if (run.resume) out += " --resume yes";
  if (run.device != "cpu") out += " --device " + run.device;
  if (!run.data.empty()) out += " --data " + quote_for_shell(run.data);
  return out;
}

}  // namespace

int join_run(const TrainingRun& run) { return join_worker(make_worker_arguments("-", run)); }

bool is_measured_elsewhere(const std::string& machine) {
  return machine::load_machine_file(machine).source == "machines/local.machine";
}

Json run_plan(const plan::Plan& plan, const TrainingRun& run) {
  const auto devices = machine::load_machine(plan.machine).devices();
  check_runs_here(plan, devices);
  const RunDirectory folder;
  const auto file = folder.add_file("plan.json", plan::to_json(plan));
  const auto text =
      run_worker(devices, make_worker_arguments(file, run), folder,
                 run.checkpoints.empty() ? "use --checkpoint DIR to make runs resumable"
                                         : "use --resume to continue from the newest checkpoint");
  Json out = Json::parse(text, nullptr, false);
  if (!out.is_object()) {
    throw UserError("runtime", "tandem_worker", "printed no JSON result to stdout");
  }
  out["predicted_step_s"] = plan.iteration.value;
  out.update(describe_costed_plan(plan));
  return out;
}

}  // namespace tandem::cli

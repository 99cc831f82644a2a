#include "cli/run_plan.h"

#include "base/error.h"
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

// Returns the job of a run under the plan in the file at `plan`.
runtime::WorkerJob make_training_job(const std::string& plan, const TrainingRun& run,
                                     bool streams) {
  auto out = make_worker_job(streams);
  out.plan = plan;
  out.steps = run.steps;
  out.seed = run.seed;
  out.rate = run.rate;
  if (run.seconds) out.seconds = *run.seconds;
  out.timeout = run.timeout;
  out.checkpoints = run.checkpoints;
  out.every = run.every;
  out.resume = run.resume;
  out.data = run.data;
  out.device = run.device;
  out.measure = run.measure;
  return out;
}

}  // namespace

bool is_measured_elsewhere(const std::string& machine) {
  return machine::load_machine_file(machine).source == "machines/local.machine";
}

Json run_plan(const plan::Plan& plan, const TrainingRun& run, const StepListener& on_step) {
  const auto devices = machine::load_machine(plan.machine).devices();
  check_runs_here(plan, devices);
  const RunDirectory directory;
  const auto file = directory.add_file("plan.json", plan::to_json(plan));
  const bool streams = on_step != nullptr;
  const auto text =
      run_worker(devices, make_training_job(file, run, streams), directory,
                 run.checkpoints.empty() ? "use --checkpoint DIR to make runs resumable"
                                         : "use --resume to continue from the newest checkpoint",
                 on_step);
  Json out = Json::parse(text, nullptr, false);
  if (!out.is_object()) {
    throw UserError("runtime", "tandem_worker", "printed no JSON result to stdout");
  }
  out["predicted_step_s"] = plan.iteration.value;
  out.update(describe_costed_plan(plan));
  return out;
}

}  // namespace tandem::cli

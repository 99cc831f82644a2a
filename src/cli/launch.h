// Starts the runtime: tandem_worker under mpirun on this computer, with one process per device. If
// mpirun or srun has started this program itself, once per device, each process starts one
// tandem_worker.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cli/run_directory.h"
#include "runtime/worker_job.h"

namespace tandem::cli {

// Throws UserError if the runtime is not built. `command` is the command that needs it.
void check_worker_is_built(const std::string& command);

// The place of this process among those that a launcher has started.
struct Launched {
  std::int64_t rank = 0;
  std::int64_t size = 1;
};
// Returns nullopt if no launcher has started this process.
std::optional<Launched> detect_launcher();

// Returns the number of processes that a launcher has started, or else the number of cores.
std::int64_t count_default_processes();

// Returns the number of devices of this kind that the worker sees on this computer. Throws
// UserError if it sees none.
std::int64_t count_visible_devices(const std::string& kind);

// Throws UserError if this computer has far fewer cores than `processes`, or if a launcher has
// started another number of processes. `what` is the flag or plan that needs them.
void check_starts_here(const std::string& what, std::int64_t processes, const std::string& hint);

// Receives the number and the loss of a step, when it has ended.
using StepListener = std::function<void(std::int64_t step, double loss)>;

// Returns a job that prints progress and notes as the user wants them, and `streams` its steps. A
// terminal that shows the losses gets no progress line, which they would overwrite.
runtime::WorkerJob make_worker_job(bool streams);

// Runs the worker and returns what it prints on standard output; its stderr is this program's. If
// the job streams, calls `on_step` after each step and prints notes; the result has neither.
// `directory` is only for this run, and gets the job file. Throws UserError if the run fails: the
// error that a process reports, or if a process was killed, an error with the hint `if_killed`.
std::string run_worker(std::int64_t processes, const runtime::WorkerJob& job,
                       const RunDirectory& directory, const std::string& if_killed = "",
                       const StepListener& on_step = nullptr);

// Runs the worker in a process of rank 1 or more; it receives its job from rank 0. Returns the exit
// code. Throws UserError if this process is the one that reports the error.
int join_worker();

}  // namespace tandem::cli

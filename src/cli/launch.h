// Starts the runtime: tandem_worker under mpirun on this computer, with one process per device. If
// mpirun or srun has started this program itself, once per device, each process starts one
// tandem_worker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/run_directory.h"

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

// Runs the worker and returns what it prints on standard output; its stderr is this program's.
// `arguments` are quoted for the shell; `folder` holds files of this run only. Throws UserError if
// the run fails: the error that a process reports, or if a process was killed, an error with the
// hint `if_killed`.
std::string run_worker(std::int64_t processes, const std::string& arguments,
                       const RunDirectory& folder, const std::string& if_killed = "");

// Runs the worker in a process of rank 1 or more; it receives its plan from rank 0. Returns the
// exit code. Throws UserError if this process is the one that reports the error.
int join_worker(const std::string& arguments);

// Returns `text` quoted as one word for the shell.
std::string quote_for_shell(const std::string& text);

// Returns the worker's flags for progress and notes on stderr.
std::string make_progress_flags();

}  // namespace tandem::cli

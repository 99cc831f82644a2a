// Starts the runtime: tandem_worker under mpirun, one process a device, on this computer. Or, where
// mpirun or srun has started this program itself, once for every device, tandem_worker in each of
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/run_folder.h"

namespace tandem::cli {

// Throws UserError where the runtime is not built; `command` is who needs it.
void check_worker_is_built(const std::string& command);

// Which of how many processes this one is, where a launcher has started several.
struct Launched {
  std::int64_t rank = 0;
  std::int64_t size = 1;
};
std::optional<Launched> launched();

// The processes started, or one a core.
std::int64_t default_processes();

// How many devices of this kind the worker sees here. Throws UserError where it sees none.
std::int64_t visible_devices(const std::string& kind);

// Throws UserError when this computer has far fewer cores than processes; `what` needs them.
void check_starts_here(const std::string& what, std::int64_t processes, const std::string& hint);

// What the worker prints on standard output; its standard error is this program's. `arguments` are
// for the shell; what is only for the run is in `folder`. Throws UserError when the run fails: the
// one that a process reports; if one was killed, with `if_killed` as the hint.
std::string run_worker(std::int64_t processes, const std::string& arguments,
                       const RunFolder& folder, const std::string& if_killed = "");

// One of the others that a launcher has started: runs the worker, which has its plan from the
// first. Returns the exit code; throws UserError where it is this process that says what is wrong.
int join_worker(const std::string& arguments);

// As one word for the shell.
std::string quoted(const std::string& text);

// The worker's flags that say whether a line on standard error counts, and if there are notes.
std::string progress_flag();

}  // namespace tandem::cli

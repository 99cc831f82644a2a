// Starts the runtime: tandem_worker under mpirun, one process a device, on this computer.
#pragma once

#include <cstdint>
#include <string>

namespace tandem::cli {

// Throws UserError where the runtime is not built; `command` is who needs it.
void check_worker_is_built(const std::string& command);

// One a core.
std::int64_t default_processes();

// Throws UserError when this computer has far fewer cores than processes; `what` needs them.
void check_starts_here(const std::string& what, std::int64_t processes, const std::string& hint);

// What the worker prints on standard output; its standard error is this program's. `arguments` are
// for the shell. Throws UserError when the run fails: the one that a process reports; if one was
// killed, with `if_killed` as the hint.
std::string run_worker(std::int64_t processes, const std::string& arguments,
                       const std::string& if_killed = "");

// As one word for the shell.
std::string quoted(const std::string& text);

// The worker's flags that say whether a line on standard error counts, and if there are notes.
std::string progress_flag();

}  // namespace tandem::cli

// The process between this program and one that it starts. posix_spawn cannot ask the system to end
// a process when its parent dies, so run_child (child.h) starts this program again as
//
//   tandem --supervise PARENT apart|joined [DIRECTORY...] -- PROGRAM [ARGUMENT...]
//
// which asks for that, then starts PROGRAM. `joined` becomes PROGRAM, and the system ends it by
// SIGKILL. `apart` waits for PROGRAM, forwards SIGTERM to it, and gets SIGTERM from the system; it
// removes the directories at the end, because this program may have been killed meanwhile.
#pragma once

#include <sys/wait.h>

#include <span>
#include <string_view>

namespace tandem::cli {

inline constexpr std::string_view kSupervise = "--supervise";

// Runs the command above. Returns the exit code. If PROGRAM cannot be started, prints the error as
// a line of JSON, {"error": {...}}, on stdout.
int supervise(std::span<char*> argv);

// Returns the exit status as in a shell: 128 + N for a process that signal N ended.
inline int to_exit_status(int wait_status) {
  constexpr int kSignalled = 128;
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : kSignalled + WTERMSIG(wait_status);
}

}  // namespace tandem::cli

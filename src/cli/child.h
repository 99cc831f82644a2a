// Runs another program to its end and captures its output. The program never outlives this one.
#pragma once

#include <string>

namespace tandem::cli {

struct Ended {
  std::string text;    // standard output
  int status = 0;      // exit status as in a shell: 128 + N for signal N
  int stopped_by = 0;  // signal that asked this program to stop meanwhile; 0: none
};

// Runs `command` by the shell and waits for its end. If this program is asked to stop (Ctrl-C,
// SIGTERM, SIGHUP, or by its host), it ends the other program and waits for it. If this program is
// killed, the system ends the other one. `apart` puts the other program into its own process group,
// where a terminal's Ctrl-C does not reach it: mpirun takes a second signal as permission not to
// clean up. Throws UserError if the command cannot be started.
Ended run_child(const std::string& command, bool apart);

}  // namespace tandem::cli

// Another program, run to its end: what it prints is kept, and it never outlives this one.
#pragma once

#include <string>

namespace tandem::cli {

struct Ended {
  std::string text;    // of standard output
  int status = 0;      // as a shell says it: 128 and more for a signal
  int stopped_by = 0;  // the signal by which this program was asked to stop meanwhile, or 0
};

// `command` is for the shell. Asked to stop (Ctrl-C, SIGTERM, SIGHUP, or by the program around it)
// this program has the other one end, and waits for it; where this program itself is killed the
// system does so. `apart`: in a process group of its own, where no Ctrl-C of a terminal meets it,
// as mpirun takes a second signal to mean that it need not clean up. Throws UserError where it
// cannot be started.
Ended run_child(const std::string& command, bool apart);

}  // namespace tandem::cli

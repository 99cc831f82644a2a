// Runs another program to its end and captures its output. The program never outlives this one.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::cli {

struct Ended {
  std::string text;    // standard output
  int status = 0;      // exit status as in a shell: 128 + N for signal N
  int stopped_by = 0;  // signal that asked this program to stop meanwhile; 0: none
};

struct ChildProgram {
  // The program and its arguments. A program without '/' is found by PATH.
  std::vector<std::string> command;
  // Puts the program into its own process group, where a terminal's Ctrl-C does not reach it:
  // mpirun takes a second signal as permission not to clean up.
  bool apart = false;
  // Removed when a program that is `apart` has ended, even if this program was killed meanwhile.
  std::vector<std::string> directories = {};
};

// Takes a line of output, without its line end, while the program runs. Returns false for a line
// that belongs to Ended::text.
using LineReader = std::function<bool(std::string_view line)>;

// Returns the directory of this program, in which its other programs are, too.
std::filesystem::path get_program_directory();

// Starts the program by posix_spawn, without a shell, and waits for its end. Its standard input is
// empty. If this program is asked to stop (Ctrl-C, SIGTERM, SIGHUP, or by its host), it ends the
// other program by SIGTERM and waits for it. If this program is killed, the system ends the other
// one (cli/supervise.h). Throws UserError if the supervisor cannot be started; for a program that
// cannot be started, `text` has the error as a line of JSON, and `status` is 127.
Ended run_child(const ChildProgram& program, const LineReader& read_line = nullptr);

}  // namespace tandem::cli

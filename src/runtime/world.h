// The processes of a run, how they fail together, and how long they may be silent.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>

#include "base/error.h"

namespace tandem::runtime {

struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // Rank among the processes of this computer
  int local_size = 1;

  // Returns the processes of MPI_COMM_WORLD.
  static World from_mpi();
};

// Prints one line of JSON on standard output, {"error": {...}}, for the program that started the
// run.
void print_error(const UserError& error);

// Installs a SIGBUS handler. If a memory-mapped file is truncated while it is read, the process
// ends with such a line instead of a bare SIGBUS.
void report_lost_files();

// Thrown on all ranks if one of them has failed and printed the reason.
struct Failed {};

// Runs `work` on all ranks and waits for all of them. Throws Failed on all ranks if it fails on
// one.
void run_together(const World& world, const std::function<void()>& work);
// Runs `work` on rank 0 alone; otherwise like `run_together`.
void run_on_first_rank(const World& world, const std::function<void()>& work);

// A time-out for this process. MPI has none: a process that waits for a lost one would wait
// forever. When time is up, an alarm ends this process and prints what took too long; mpirun then
// ends the others.
class Deadline {
 public:
  Deadline();
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  // Restarts the time-out with `seconds` for `what`, such as "step 12".
  void renew(std::int64_t seconds, const std::string& what) const;
};

}  // namespace tandem::runtime

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
  int local_rank = 0;  // among the processes of this computer
  int local_size = 1;

  // Those of MPI_COMM_WORLD.
  static World of_mpi();
};

// One line of JSON on standard output, {"error": {...}}: who started the run reads it there.
void print_error(const UserError& error);

// From now on a file that is cut off while it is read in place ends the process with such a line,
// not by SIGBUS without a word.
void report_lost_files();

// Thrown on all ranks alike where one has failed and said why.
struct Failed {};

// Runs `work` on all ranks and waits for all. Throws Failed if one has not succeeded.
void together(const World& world, const std::function<void()>& work);
// The same for work that rank 0 alone does.
void on_first(const World& world, const std::function<void()>& work);

// A process that waits for one that is lost would wait for ever: MPI knows no deadlines. An alarm
// ends this process, saying what took too long, and mpirun then ends the others.
class Deadline {
 public:
  Deadline();
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  // From now on so many seconds for `what`, as "step 12".
  void renew(std::int64_t seconds, const std::string& what) const;
};

}  // namespace tandem::runtime

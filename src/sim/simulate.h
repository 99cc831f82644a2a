// The simulator: a program on a machine becomes a timeline, times by kind, and memory.
//
// One device stands for all of them (the one whose idle digits are 0, which does the most). It has
// a compute stream and a communication stream for each machine level; a task starts when its inputs
// are there and its stream is free, so communication that nothing waits for overlaps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lower/program.h"
#include "machine/machine.h"

namespace tandem::sim {

struct Span {
  std::size_t task = 0;
  std::size_t stream = 0;  // 0 compute, 1 + level communication
  Seconds start;
  Seconds end;
};

struct Simulation {
  Seconds iteration;
  // "compute", "embedding", "all_reduce", ...: as if nothing overlapped.
  std::map<std::string, Seconds> serialized;
  Seconds compute;       // the compute stream's busy time, embeddings included
  Seconds exposed_comm;  // communication with no compute beside it
  Seconds bubble;        // neither; compute + exposed + bubble = iteration
  Bytes memory;          // peak, persistent included
  Bytes persistent;      // weights and optimizer state
  Flops model_flops;     // of all devices together, redundant work not counted
  double mfu = 0;        // model_flops over what the devices could do in the iteration
  std::vector<Span> timeline;
};

Simulation simulate(const lower::Program& program, const machine::Machine& machine);

}  // namespace tandem::sim

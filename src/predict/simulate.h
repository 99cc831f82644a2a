// The simulator: turns a program on a machine into a timeline, times by kind, and memory.
//
// Devices that do the same work equally fast form one class, and one device represents it. A device
// has a compute stream and, for each machine level, one stream for collectives, one for sends and
// one for receives. A task starts when its inputs are ready and its stream is free, so
// communication that no task waits for overlaps. Classes that take part in the same collective
// start it together. Equivalent classes in different places are simulated once
// (predict/equivalent_classes.h).
//
// Example: backward b takes 2 s, all_reduce %b' 3 s, backward a 2 s, update b 1 s.
//   compute      [0, 2) backward b   [2, 4) backward a   [5, 6) update b
//   collectives  [2, 5) all_reduce %b'
// The iteration takes 6 s: compute is busy for 5 s, and 1 s of communication is exposed.
//
// If updates are delayed, consecutive steps overlap. The simulator then runs several steps, and the
// iteration is the time from the end of one step to the end of the next, without fill and drain.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lower/program.h"
#include "machine/machine.h"
#include "predict/durations.h"
#include "predict/memory.h"

namespace tandem::predict {

struct Span {
  std::uint32_t task = 0;
  std::uint32_t micro_batch = 0;
  std::uint32_t device_class = 0;
  std::uint32_t stream = 0;  // 0: compute; then, by level: collectives, sends, receives
  Seconds start;
  Seconds end;
  std::uint32_t step = 0;  // index of the step if several are simulated
};

struct Simulation {
  Seconds iteration;
  // Fields from here to `bubble` are of the busiest class. Time by kind as if nothing overlapped:
  // "compute", "embedding", "all_reduce_time", ...
  std::map<std::string, Seconds> serialized;
  Seconds compute;                   // busy time of the compute stream, including embeddings
  Seconds exposed_comm;              // communication without overlapping compute
  Seconds bubble;                    // the rest: compute + exposed_comm + bubble = iteration
  Bytes memory;                      // peak of the fullest class, including persistent bytes
  std::vector<Memory> group_memory;  // fullest device of each group; one entry if all are equal
  Bytes persistent;                  // weights and optimizer state
  Flops model_flops;                 // of all devices together, without redundant work
  double mfu = 0;                    // model_flops / (peak flops of all devices in one iteration)
  // Spans of one iteration; if steps overlap, the spans that start in it.
  std::vector<Span> timeline;
  std::uint32_t busiest = 0;     // busiest class
  bool is_extrapolated = false;  // whether times are extrapolated from few micro-batches
};

// Classes whose spans the timeline has: all, or one of each set of equivalent classes (which
// includes the busiest). All other results are the same.
enum class Classes : std::uint8_t { kAll, kDifferent };

Simulation simulate(const lower::Program& program, const machine::Machine& machine,
                    Classes classes = Classes::kAll);

// Micro-batches that are simulated: all, or the first few if the others take as long as the last of
// these (predict/few_micro_batches.h).
enum class Extent : std::uint8_t { kAll, kFew };

// Returns nullopt if an iteration takes `limit` or more; the simulation stops as soon as this is
// certain. `known`: see Durations.
std::optional<Simulation> simulate_within(Seconds limit, const lower::Program& program,
                                          const machine::Machine& machine, Classes classes,
                                          Operations* known = nullptr,
                                          Extent extent = Extent::kAll);

}  // namespace tandem::predict

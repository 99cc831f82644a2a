// The simulator: a program on a machine becomes a timeline, times by kind, and memory.
//
// Devices that do the same, equally fast, are one class; one device stands for each. It has a
// compute stream and, for each machine level, one for collectives, one for what it sends and one
// for what it receives; a task starts when its inputs are there and its stream is free, so
// communication that nothing waits for overlaps. Where classes take part in one collective they
// start together. Classes that lie elsewhere and do the same are simulated once (predict/alike.h).
//
// Where updates are delayed the steps flow into each other, so several are simulated, and the
// iteration is the time from the end of one to that of the next, fill and drain left out.
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
  std::uint32_t stream = 0;  // 0 compute; of the levels: collectives, sends, receives
  Seconds start;
  Seconds end;
  std::uint32_t step = 0;  // where several are simulated
};

struct Simulation {
  Seconds iteration;
  // Of the busiest class, from here to `bubble`.
  // "compute", "embedding", "all_reduce", ...: as if nothing overlapped.
  std::map<std::string, Seconds> serialized;
  Seconds compute;                   // the compute stream's busy time, embeddings included
  Seconds exposed_comm;              // communication with no compute beside it
  Seconds bubble;                    // neither; compute + exposed + bubble = iteration
  Bytes memory;                      // peak of the fullest class, persistent included
  std::vector<Memory> group_memory;  // of the fullest of each group; one where all are equal
  Bytes persistent;                  // weights and optimizer state
  Flops model_flops;                 // of all devices together, redundant work not counted
  double mfu = 0;                    // model_flops over what the devices could do in the iteration
  // Of one iteration; where steps overlap, what starts in it.
  std::vector<Span> timeline;
  std::uint32_t busiest = 0;     // class
  bool is_extrapolated = false;  // Are the times told by few micro-batches?
};

// Of which classes the timeline has the spans: of all, or of one of those that do the same, among
// them the busiest. All else is the same.
enum class Classes : std::uint8_t { kAll, kDifferent };

Simulation simulate(const lower::Program& program, const machine::Machine& machine,
                    Classes classes = Classes::kAll);

// How many micro-batches are simulated: all, or of many so few that the others take what the last
// of these take (predict/few_micro_batches.h).
enum class Extent : std::uint8_t { kAll, kFew };

// Nothing where an iteration takes `limit` or more: it is given up as soon as that is certain.
// `known`: of Durations.
std::optional<Simulation> simulate_within(Seconds limit, const lower::Program& program,
                                          const machine::Machine& machine, Classes classes,
                                          Operations* known = nullptr,
                                          Extent extent = Extent::kAll);

}  // namespace tandem::predict

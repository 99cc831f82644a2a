// Computes the memory of a class of devices over the iteration that its timeline shows.
#pragma once

#include <vector>

#include "predict/memory.h"
#include "predict/simulate.h"

namespace tandem::report {

struct MemoryPoint {
  Seconds at;              // start; the point is valid up to the next one
  predict::Moment moment;  // fullest moment between two tasks of the compute stream
};

// Returns the points in order. `spans` are the spans of the class of `device`, in the timeline's
// order. Only compute tasks give the times: communication may run earlier or later than its
// neighbours in the list.
std::vector<MemoryPoint> compute_memory_curve(const lower::Program& program, std::int64_t device,
                                              const std::vector<predict::Span>& spans);

}  // namespace tandem::report

// Totals of a simulated iteration: the times of the busiest class of devices, memory and MFU.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "predict/simulate.h"

namespace tandem::predict {

// The spans of an iteration that takes `iteration`. Spans of one stream are sorted.
struct IterationSpans {
  std::span<const std::vector<Span>> by_class;
  Seconds iteration;
};

// An iteration of fewer micro-batches, from which the time of further ones is extrapolated
// (predict/few_micro_batches.h).
struct Extrapolation {
  IterationSpans fewer;
  double factor = 0;

  [[nodiscard]] Seconds extend(Seconds time, Seconds of_fewer) const {
    return time + factor * (time - of_fewer);
  }
};

// Stores in `out` the time of the iteration and the times of the busiest class. Extrapolates them
// if `further` is given. Returns the number of the busiest class.
//   compute [0, 4), all_reduce [3, 6), iteration 8 -> compute 4, exposed_comm 2, bubble 2
std::size_t sum_times(const lower::Program& program, const IterationSpans& simulated,
                      const std::optional<Extrapolation>& further, Simulation& out);

// Stores in `out` the memory of the fullest device of each group, and of the fullest of all.
void add_memory(const lower::Program& program, const machine::Machine& machine,
                std::int64_t micro_batches, Simulation& out);

// Stores `model_flops` in `out`, and the MFU that follows from the time of the iteration.
void add_mfu(const lower::Program& program, const machine::Machine& machine, Flops model_flops,
             Simulation& out);

}  // namespace tandem::predict

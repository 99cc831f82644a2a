// What a class of devices holds in the course of the iteration that its timeline shows.
#pragma once

#include <vector>

#include "predict/memory.h"
#include "predict/simulate.h"

namespace tandem::report {

struct MemoryPoint {
  Seconds at;              // from here to the next point
  predict::Moment moment;  // the fullest of those between two tasks of the compute stream
};

// `spans` are those of the class of `device`, in the timeline's order. What is communicated does
// not tell the time: it may run before or after what stands around it in the list.
std::vector<MemoryPoint> memory_curve(const lower::Program& program, std::int64_t device,
                                      const std::vector<predict::Span>& spans);

}  // namespace tandem::report

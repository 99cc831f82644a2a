// Sums the times of each task in one step on one class of devices. predict/breakdown.h does this
// for kinds of tasks; this is for single operators and tensors.
#pragma once

#include <vector>

#include "predict/simulate.h"

namespace tandem::report {

struct TaskTime {
  std::int64_t times = 0;  // runs per step
  Seconds serialized;      // sum over all runs, without overlap
  Seconds exposed;         // exposed communication, as in predict::Share
  Seconds begin, end;      // first run
  Seconds last;            // end of the last run
};

// Returns the times by task. On the busiest class, `exposed` sums to Simulation::exposed_comm over
// all tasks that communicate.
std::vector<TaskTime> sum_task_times(const lower::Program& program,
                                     const predict::Simulation& simulation,
                                     std::uint32_t device_class);

// Returns the device that represents a class.
std::int64_t find_class_device(const lower::Program& program, const machine::Machine& machine,
                               std::uint32_t device_class);

}  // namespace tandem::report

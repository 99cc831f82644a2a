// What each task of a program takes in a step, on one class of devices: predict/breakdown.h says it
// of kinds of tasks, this of every one, so that it can be told of an operator or a tensor.
#pragma once

#include <vector>

#include "predict/simulate.h"

namespace tandem::report {

struct TaskTime {
  std::int64_t times = 0;  // a step
  Seconds serialized;      // of all times, as if nothing overlapped
  Seconds exposed;         // of communication; as predict::Share has it
  Seconds begin, end;      // of the first time
  Seconds last;            // when the last time ends
};

// By task. Over all tasks that communicate, on the busiest class, `exposed` adds up to
// Simulation::exposed_comm.
std::vector<TaskTime> task_times(const lower::Program& program,
                                 const predict::Simulation& simulation, std::uint32_t device_class);

// The device that stands for a class.
std::int64_t device_of_class(const lower::Program& program, const machine::Machine& machine,
                             std::uint32_t device_class);

}  // namespace tandem::report

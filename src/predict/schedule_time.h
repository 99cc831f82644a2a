// The step time of a pipeline from the times of its stages alone, without updates, collectives and
// host times.
//
// Example: 1F1B, 2 micro-batches on 2 stages that take 1 s forward and 2 s backward, and no time
// between stages. The step takes 9 s:
//   rank 0  F0 0-1, F1 1-2, B0 4-6, B1 7-9
//   rank 1  F0 1-2, B0 2-4, F1 4-5, B1 5-7
#pragma once

#include <memory>
#include <vector>

#include "plan/plan.h"

namespace tandem::predict {

class ScheduleCache;  // fold/schedule_cache.h

// Time of one micro-batch in one stage, in seconds.
struct PassTime {
  double forward = 0;
  double backward = 0;
  double early = 0;         // part of `backward` that needs no incoming gradient
  double accumulation = 0;  // accumulation in `backward`; one micro-batch has none
};

// Computes step times and caches the slots of the schedules that it was called with.
class ScheduleTimes {
 public:
  ScheduleTimes();
  ~ScheduleTimes();

  // Returns the step time in seconds. Stage s runs on rank s % `ranks`. Between two stages an
  // activation takes `between.forward` seconds and its gradient
  // `between.backward`. The result is a lower bound for steps with these stages: any
  // additional work delays all later passes.
  double step_time(const plan::Schedule& schedule, std::int64_t ranks,
                   const std::vector<PassTime>& stages, PassTime between);

 private:
  std::unique_ptr<ScheduleCache> schedules_;
};

}  // namespace tandem::predict

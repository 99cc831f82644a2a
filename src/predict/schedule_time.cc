#include "predict/schedule_time.h"

#include "predict/fold/pipeline.h"

namespace tandem::predict {

ScheduleTimes::ScheduleTimes() : schedules_(std::make_unique<ScheduleCache>()) {}
ScheduleTimes::~ScheduleTimes() = default;

double ScheduleTimes::step_time(const plan::Schedule& schedule, std::int64_t ranks,
                                const std::vector<PassTime>& stages, PassTime between) {
  std::vector<StageTimes> times;
  times.reserve(stages.size());
  for (const auto& [forward, backward, early, accumulation] : stages) {
    // The first micro-batch has nothing to accumulate. Deducting the time from the last one instead
    // ends the step no later, so the result stays a lower bound.
    times.push_back(
        {.forward = forward, .backward = backward, .backward_early = early, .last = -accumulation});
  }
  const std::vector<StageTransfer> transfers(stages.size() - 1,
                                             {.time = between.forward, .back = between.backward});
  return compute_pipeline_time(schedule, ranks, times, transfers, {}, *schedules_).end;
}

}  // namespace tandem::predict

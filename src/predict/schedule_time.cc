#include "predict/schedule_time.h"

#include "predict/fold/pipeline.h"

namespace tandem::predict {

ScheduleTimes::ScheduleTimes() : turns_(std::make_unique<TurnTables>()) {}
ScheduleTimes::~ScheduleTimes() = default;

double ScheduleTimes::step(const plan::Schedule& schedule, std::int64_t ranks,
                           const std::vector<PassTime>& stages, PassTime between) {
  std::vector<StageTimes> times;
  times.reserve(stages.size());
  for (const auto& [forward, backward] : stages) {
    times.push_back({.forward = forward, .backward = backward});
  }
  const std::vector<Transfer> transfers(stages.size() - 1,
                                        {.time = between.forward, .back = between.backward});
  return time_of(schedule, ranks, times, transfers, {}, *turns_).end;
}

}  // namespace tandem::predict

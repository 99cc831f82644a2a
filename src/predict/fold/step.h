// The stages of one strategy, put together: the time and memory of its step.
#pragma once

#include "predict/fold/stage_cache.h"
#include "predict/simulate.h"

namespace tandem::predict {

// A stage on one kind of devices.
struct OnKind {
  LoweredStage* lowered = nullptr;
  TimedStage* timed = nullptr;
};

// Returns the step of `setting` with `batch` samples, without a timeline. `on` are of one of its
// stages, by kind of devices, of those that ranks have; `division` says what each stage has.
Simulation step_of(StageCache& cache, const std::vector<OnKind>& on,
                   const strategies::Setting& setting, const Division& division,
                   std::int64_t batch);

}  // namespace tandem::predict

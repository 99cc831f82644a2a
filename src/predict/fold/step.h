// Combines the stages of one strategy into the time and memory of its step.
#pragma once

#include "predict/fold/stage_cache.h"
#include "predict/simulate.h"

namespace tandem::predict {

// One stage on one kind of devices.
struct OnKind {
  LoweredStage* lowered = nullptr;
  TimedStage* timed = nullptr;
};

// Returns the step of `setting` with `batch` samples, without a timeline. `on` is a stage by kind
// of devices, null for kinds that no rank has. `division` says which runs each stage has.
Simulation combine_stages(StageCache& cache, const std::vector<OnKind>& on,
                          const strategies::Setting& setting, const Division& division,
                          std::int64_t batch);

}  // namespace tandem::predict

// The stages of one strategy, put together: the time and memory of its step.
#pragma once

#include "predict/fold/stage_cache.h"
#include "predict/simulate.h"

namespace tandem::predict {

// Returns the step of `setting` with `batch` samples, without a timeline. `lowered` and `timed` are
// of one of its stages, `division` says what each stage has.
Simulation step_of(StageCache& cache, LoweredStage& lowered, TimedStage& timed,
                   const strategies::Setting& setting, const Division& division,
                   std::int64_t batch);

}  // namespace tandem::predict

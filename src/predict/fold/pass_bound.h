// Lower bounds on the time of one micro-batch, from the sections of a stage.
#pragma once

#include "predict/estimator.h"
#include "predict/fold/stage_cache.h"

namespace tandem::predict {

// Returns the bounds. `on`: the lowered stage by kind of device. `levels`: number of machine
// levels.
MicroBatchBound compute_micro_batch_bound(const std::vector<LoweredStage*>& on,
                                          const DeviceKinds& kinds, std::size_t levels);

}  // namespace tandem::predict

// What one micro-batch takes at least, from the sections of a stage.
#pragma once

#include "predict/estimator.h"
#include "predict/fold/stage_cache.h"

namespace tandem::predict {

// `on`: the stage on each kind of devices.
PassBound bound_of_pass(const std::vector<LoweredStage*>& on, const DeviceKinds& kinds,
                        std::size_t levels);

}  // namespace tandem::predict

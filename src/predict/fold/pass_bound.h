// What one micro-batch takes at least, from the sections of a stage.
#pragma once

#include "predict/estimator.h"
#include "predict/fold/stage_cache.h"

namespace tandem::predict {

// `without`: the same pass without recomputation, where this one recomputes. What is recomputed may
// run while something is communicated, so what is exposed is that of the pass without.
PassBound bound_of_pass(LoweredStage& lowered, std::size_t levels, const PassBound* without);

}  // namespace tandem::predict

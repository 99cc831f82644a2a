// What a stage takes: a whole step where there is no other, else each of its turns.
#pragma once

#include "estimate/pipeline.h"
#include "estimate/stage.h"

namespace tandem::estimate {

// One device of all, for a whole step.
double time_of_step(const Sections& sections, const RunCounts& counts, Passages& passages,
                    std::int64_t micro_batches);

// The turns of a stage of several: what a micro-batch takes, and what the first and last do beside.
StageTimes times_of_stage(const Sections& sections, const RunCounts& counts, Passages& passages,
                          std::int64_t micro_batches);

}  // namespace tandem::estimate

// The time of a whole step if there is one stage, otherwise the times of a stage's schedule slots.
#pragma once

#include "predict/fold/pipeline.h"
#include "predict/fold/stage_timer.h"

namespace tandem::predict {

// Returns the time of a step without a pipeline, on one device that represents all.
double compute_step_time(const Sections& sections, const RunCounts& counts, Passages& passages,
                         std::int64_t micro_batches);

// Slots of a stage before the last micro-batch. They are shared between timings that differ only in
// the collectives that sum gradients once a step.
struct Beginning {
  RunCounts counts;  // by run: how many of it the stage has
  StageTimes times;  // without those of the last micro-batch
  Streams streams;   // before its backward slot, whose input comes at `now`
  double now = 0;
};
using Beginnings = std::vector<Beginning>;

// Returns the times of one stage of several: of any micro-batch, and additional times of the first
// and last one. `known` belongs to these sections' passages, or to those that they share.
StageTimes compute_stage_times(const Sections& sections, const RunCounts& counts,
                               Passages& passages, std::int64_t micro_batches, Beginnings& known);

}  // namespace tandem::predict

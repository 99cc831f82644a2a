// What a stage takes: a whole step where there is no other, else each of its turns.
#pragma once

#include "predict/fold/pipeline.h"
#include "predict/fold/stage.h"

namespace tandem::predict {

// One device of all, for a whole step.
double time_of_step(const Sections& sections, const RunCounts& counts, Passages& passages,
                    std::int64_t micro_batches);

// What stages do in turns before the last micro-batch's: the same where they differ in what devices
// sum up once a step. Of some sections, by how many of each a stage has.
class Beginnings {
 public:
  struct Beginning {
    RunCounts counts;
    StageTimes times;  // but for those of the last micro-batch
    Streams streams;   // before its backward turn, in which the input comes at `now`
    double now = 0;
  };
  // Nothing where there is none yet.
  [[nodiscard]] const Beginning* find(const RunCounts& counts) const;
  const Beginning& add(Beginning beginning);

 private:
  std::vector<Beginning> known_;
};

// The turns of a stage of several: what a micro-batch takes, and what the first and last do beside.
// `known` is of these sections' passages, or of those that they begin as.
StageTimes times_of_stage(const Sections& sections, const RunCounts& counts, Passages& passages,
                          std::int64_t micro_batches, Beginnings& known);

}  // namespace tandem::predict

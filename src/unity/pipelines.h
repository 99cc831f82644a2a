// Pipelines as Unity has them: of the whole graph, each stage on a part of the devices that has as
// many as the others and sends to the next one alone. A micro-batch passes all stages, so what is
// searched is a micro-batch on the devices of one stage; then the graph is cut where the stage that
// takes longest takes least, by what its operators cost there.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "search/pool.h"
#include "unity/to_plan.h"

namespace tandem::unity {

// How the devices are divided, and in how many micro-batches a step is taken while operators are
// parallelized. Without a pipeline: one of each.
struct Way {
  std::int64_t stages = 1;
  std::int64_t micro_batches = 1;
};

// Pipelines that the model's operators, the machine and the batch allow.
std::vector<Way> pipelines(const search::CandidatePool& pool);

// The way's plan with its micro-batches, and with more and fewer: of the same layouts.
std::vector<search::Candidate> candidates_of(const Way& way, const Made& made,
                                             const search::CandidatePool& pool);

}  // namespace tandem::unity

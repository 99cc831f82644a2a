// Pipelines as in Unity. A pipeline covers the whole graph. All stages have equally many devices,
// and each stage sends only to the next one. Every micro-batch passes all stages, so the search
// optimizes one micro-batch on the devices of one stage. Then the graph is cut so that the slowest
// stage takes the least time, by the operators' costs there.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "search/pool.h"
#include "unity/to_plan.h"

namespace tandem::unity {

// The number of stages that the devices are divided into, and of micro-batches in a step while
// operators are parallelized. Without a pipeline both are one.
struct UnityPipeline {
  std::int64_t stages = 1;
  std::int64_t micro_batches = 1;
};

// Returns the pipelines that the model's operators, the machine and the batch allow.
//   2 nodes of 2 GPUs, batch 32 -> 2 stages with 8 micro-batches, 4 stages with 16
std::vector<UnityPipeline> list_pipelines(const search::CandidatePool& pool);

// Returns candidates with the layouts of `made`: with the way's number of micro-batches, and
// with more and fewer.
std::vector<search::Candidate> make_candidates(const UnityPipeline& way, const UnityPlan& made,
                                               const search::CandidatePool& pool);

}  // namespace tandem::unity

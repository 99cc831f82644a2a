// Collectives of weights' gradients, where the software does not overlap them with the backward
// pass: they run after it.
#pragma once

#include <vector>

#include "lower/program.h"

namespace tandem::sim {

// By segment, its tasks in the order in which they are run. Without overlap, moves of weights'
// gradients and what reads their results stand at the end of a backward segment.
std::vector<std::vector<std::uint32_t>> task_order(const lower::Program& program, bool overlap);

// By task: does it synchronize the gradient of a weight?
std::vector<bool> gradient_syncs(const lower::Program& program);

}  // namespace tandem::sim

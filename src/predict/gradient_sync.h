// Collectives of weights' gradients, where the software does not overlap them with the backward
// pass: they run after it.
#pragma once

#include <vector>

#include "lower/program.h"

namespace tandem::predict {

// By segment, its tasks in the order in which they are run. Without overlap what is after_backward
// stands at the end of a backward segment.
std::vector<std::vector<std::uint32_t>> task_order(const lower::Program& program, bool overlap);

// By task: without overlap, does it run after the backward pass? Moves of weights' gradients, and
// what reads their results.
std::vector<bool> after_backward(const lower::Program& program);

// By task: does it synchronize the gradient of a weight?
std::vector<bool> gradient_syncs(const lower::Program& program);

}  // namespace tandem::predict

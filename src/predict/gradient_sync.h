// Collectives that synchronize the gradients of weights. If the software does not overlap them with
// the backward pass, they run after it.
#pragma once

#include <vector>

#include "lower/program.h"

namespace tandem::predict {

// Returns, by segment, its tasks in execution order. Without overlap, the tasks of
// find_tasks_after_backward are at the end of each backward segment.
//   backward b, all_reduce %b', backward a, all_reduce %a'
//   backward b, backward a, all_reduce %b', all_reduce %a'      without overlap
std::vector<std::vector<std::uint32_t>> order_tasks(const lower::Program& program, bool overlap);

// Returns, by task, whether it runs after the backward pass if the software does not overlap:
// gradient synchronization, and all tasks that read its results.
std::vector<bool> find_tasks_after_backward(const lower::Program& program);

// Returns, by task, whether it synchronizes the gradient of a weight.
std::vector<bool> find_gradient_syncs(const lower::Program& program);

}  // namespace tandem::predict

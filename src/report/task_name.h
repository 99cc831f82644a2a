// Describes tasks in words.
#pragma once

#include <string>
#include <string_view>

#include "lower/program.h"

namespace tandem::report {

// Returns "forward", "recompute", "backward" or "update".
std::string_view get_pass_name(const lower::Task& task);

// Returns "the backward pass of %l3.scores", "all_gather of %w1", "all_reduce of the gradient of
// %w1" or "the update of %w1".
std::string task_text(const lower::Program& program, const lower::Task& task);

}  // namespace tandem::report

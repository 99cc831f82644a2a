// Describes in sentences how a plan runs a step: pipeline, micro-batches, recomputation, storage of
// weights, and precision.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/plan_view.h"

namespace tandem::report {

std::vector<std::string> describe_schedule(const PlanView& view);

// Returns each rule of a derivation with its number of steps, ordered by the first step.
std::vector<std::pair<std::string, std::size_t>> count_derivation_rules(
    const rewrite::Derivation& derivation);
// Returns "fuse-linear-relu x7, merge-matmuls".
std::string rules_text(const std::vector<std::pair<std::string, std::size_t>>& rules);

}  // namespace tandem::report

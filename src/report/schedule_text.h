// How a plan runs a step, in sentences: pipeline, micro-batches, what the backward pass makes
// again, how weights are stored, in which types.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/plan_view.h"

namespace tandem::report {

std::vector<std::string> schedule_sentences(const PlanView& view);

// The rules of a derivation, in the order of their first steps, and how often.
std::vector<std::pair<std::string, std::size_t>> derivation_rules(
    const rewrite::Derivation& derivation);
// "fuse-linear-relu x7, merge-matmuls".
std::string rules_text(const std::vector<std::pair<std::string, std::size_t>>& rules);

}  // namespace tandem::report

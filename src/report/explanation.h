// Explains a plan: the layout of its operators, and what takes its time, memory and communication.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "report/plan_view.h"

namespace tandem::report {

// Returns the text of `tandem explain plan.json`. `tokens` is the number of tokens per step, or 0
// if the network has none.
std::string explanation_text(const PlanView& view, std::int64_t tokens);

// Returns the keys of report::details_json and these: "feasible", "margin", "memory_limit_bytes",
// "schedule", "rules", "compute_by_operator", "blocks", "slowest_operators", "most_exposed",
// "largest_tensors".
nlohmann::ordered_json explanation_json(const PlanView& view);

}  // namespace tandem::report

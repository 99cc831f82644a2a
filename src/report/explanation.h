// Why a plan is what it is: what takes its time, its memory and its communication, and how it
// spreads what.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "report/plan_view.h"

namespace tandem::report {

// `tokens` of a step, 0 where there are none.
std::string explanation_text(const PlanView& view, std::int64_t tokens);

// Under the keys of report::details_json, and "margin", "memory_limit_bytes", "schedule",
// "rules", "compute_by_operator", "blocks", "slowest_operators", "most_exposed", "largest_tensors".
nlohmann::ordered_json explanation_json(const PlanView& view);

}  // namespace tandem::report

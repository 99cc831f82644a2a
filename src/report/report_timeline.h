// The simulated iteration of a plan for its page (report_data.h): what runs when on which stream of
// which class of devices, and what these hold meanwhile.
#pragma once

#include <nlohmann/json.hpp>

#include "report/plan_view.h"

namespace tandem::report {

// Times are whole nanoseconds. "tasks" has a column for each property of those that run; a class
// has "streams", each with the columns "task", "start", "duration", "micro_batch", sorted by start,
// and where there are any the points of its memory.
//
//   {"iteration", "classes_in_all", "steps_overlap", "tasks": {"name", "what", "kind", "pass",
//    "node", "bytes", "over"}, "overs": [...],
//    "classes": [{"number", "name", "streams": [{"name", ...}], "memory": {"at", "weights",
//                 "optimizer_state", "gradients", "activations", "inputs"}}]}
nlohmann::ordered_json report_timeline(const PlanView& view, std::size_t most_spans);

}  // namespace tandem::report

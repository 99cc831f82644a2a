// Describes the simulated iteration of a plan for its page (report_data.h): the tasks on each
// stream of each class of devices, and the memory of the class over time.
#pragma once

#include <nlohmann/json.hpp>

#include "report/plan_view.h"

namespace tandem::report {

// Returns the timeline, with times as integers in nanoseconds. "tasks" has one column per property.
// A class has the points of its memory and "streams", each with the columns "task", "start",
// "duration" and "micro_batch", sorted by start. Shows at most `most_spans` spans (see
// choose_shown_classes).
//
//   {"iteration", "classes_in_all", "steps_overlap", "tasks": {"name", "what", "kind", "pass",
//    "node", "bytes", "over"}, "overs": [...],
//    "classes": [{"number", "name", "streams": [{"name", ...}], "memory": {"at", "weights",
//                 "optimizer_state", "gradients", "activations", "inputs"}}]}
nlohmann::ordered_json report_timeline(const PlanView& view, std::size_t most_spans);

}  // namespace tandem::report

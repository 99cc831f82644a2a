// The graph of a plan for its page (report_data.h): the model's nodes with what each device does
// and holds, and what is communicated for them; which nodes repeat; all facts of those that stand
// for others.
//
//   {"ops": [...], "types": [...], "how": [...], "layouts": [...],      texts, told once
//    "name", "op", "type", "how_of", "layout", "inputs", "source", "stage", "bytes", "made_again":
//    columns by node; "moves": [[node, operand, kind, over, bytes, times, backward, again]],
//    "blocks": [{"start", "period", "count", "blocks"}], "facts": {node: node_json}, "rules":
//    {...}}
#pragma once

#include <nlohmann/json.hpp>

#include "report/plan_view.h"

namespace tandem::report {

// `model` is what the plan's derivation starts from, or null.
nlohmann::ordered_json report_graph(const PlanView& view, const graph::Graph* model);

// The same of a graph that is not parallel, as far as it goes.
nlohmann::ordered_json plain_graph(const graph::Graph& graph);

}  // namespace tandem::report

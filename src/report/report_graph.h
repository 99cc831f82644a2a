// Describes the graph of a plan for its page (report_data.h): the model's nodes with layouts and
// communication, the repeated blocks, and the facts of each node that represents others.
//
//   {"ops": [...], "types": [...], "how": [...], "layouts": [...],      texts, each once
//    "name", "op", "type", "how_of", "layout", "inputs", "source", "stage", "bytes", "recomputed":
//    columns by node; "moves": [[node, operand, kind, over, bytes, times, backward, again]],
//    "blocks": [{"start", "period", "count", "blocks"}], "facts": {node: node_json}, "rules":
//    {...}}
#pragma once

#include <nlohmann/json.hpp>

#include "report/plan_view.h"

namespace tandem::report {

// Returns the graph. `model` is the graph that the plan's derivation starts from, or null.
nlohmann::ordered_json report_graph(const PlanView& view, const graph::Graph* model);

// Returns the columns and blocks that also exist for a graph without a plan.
nlohmann::ordered_json plain_graph_json(const graph::Graph& graph);

}  // namespace tandem::report

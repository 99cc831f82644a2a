// Graphs as JSON, for programs that write or read them. The text form (graph/text.h) is for people.
//
//   {"tandem_graph": 1, "name": "mlp",
//    "nodes": [{"name": "x", "op": "input", "attributes": {"shape": "[64, 784]"}, "inputs": []},
//              {"name": "h", "op": "relu", "attributes": {}, "inputs": ["x"],
//               "type": "[64, 784] fp32"}],
//    "outputs": ["h"]}
//
// Attributes and types are written as in graph text; `read_attributes`, `inputs` and `type` are
// optional.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace tandem::graph {

std::string to_json(const Graph& graph);

// Returns whether the text starts like a graph in JSON.
bool is_graph_json(std::string_view text);

// Parses a graph. `source` is the text's name in messages. Throws UserError with "source" and the
// node.
Graph parse_graph_json(std::string_view text, const std::string& source = "graph");

}  // namespace tandem::graph

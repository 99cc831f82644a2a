// Fuzzing of the parser of a graph as JSON.
#include "graph/json.h"
#include "target.h"

void tandem::fuzz::parse(std::string_view input) {
  const auto graph = graph::parse_graph_json(input, "fuzz");
  if (graph.size() > 1000) return;
  const auto again = graph::parse_graph_json(graph::to_json(graph), "fuzz");
  if (again.identity_hash() != graph.identity_hash()) std::abort();
}

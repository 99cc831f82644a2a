// Fuzzing of the parser of the text of a graph.
#include "graph/text.h"
#include "target.h"

void tandem::fuzz::parse(std::string_view input) {
  const auto graph = graph::parse_graph(input, "fuzz");
  // A graph that is printed must be read again as the same graph.
  if (graph.size() > 1000) return;
  const auto again = graph::parse_graph(graph::to_text(graph), "fuzz");
  if (again.identity_hash() != graph.identity_hash()) std::abort();
}

// The text of a graph, which parses back to the same graph:
//
//   graph mlp
//   %x = input() shape=[64, 784]
//   %w1 = weight() shape=[512, 784]
//   %h1 = linear(%x, %w1) act=relu : [64, 512] fp32
//   return %h1
//
// A '#' starts a comment. The type after ':' may be left out; where given it is checked.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace tandem::graph {

std::string to_text(const Graph& graph);

// `source` is how messages call the text ("model.graph"). Throws UserError with "source:line".
Graph parse_graph(std::string_view text, const std::string& source = "graph");

}  // namespace tandem::graph

// A network as people read it: repeated blocks once, with parameters and operations as comments.
// It is a graph's text all the same and parses back.
#pragma once

#include <string>

#include "graph/graph.h"

namespace tandem::report {

// `title` opens the first line: "bert_large, batch 8".
//   # bert_large, batch 8: 302M parameters (1.21 GB), 334 GFLOP forward, 579 nodes
//   graph bert_large
//   ...
std::string graph_text(const graph::Graph& graph, const std::string& title);

}  // namespace tandem::report

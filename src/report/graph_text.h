// A network as people read it: repeated blocks once, with parameters and operations as comments.
// It is a graph's text all the same and parses back.
#pragma once

#include <string>

#include "graph/graph.h"

namespace tandem::report {

// `title` opens the first line: "gpt2, batch 8"; `samples` is the batch.
//   # gpt2, batch 8: 124M parameters (498 MB), 2.33 TFLOP forward, 294 nodes
//   # parameters: 85.1M transformer, 39.4M word_embedding
//   # a sample: 292 GFLOP, 3.15 MB looked up; a token: 285 MFLOP, 3.07 kB looked up
//   graph gpt2
//   ...
std::string graph_text(const graph::Graph& graph, const std::string& title, std::int64_t samples);

}  // namespace tandem::report

// Prints a network as graph text with repeated blocks folded. Parameters and operations are
// comments, so the text parses back.
#pragma once

#include <string>

#include "graph/graph.h"

namespace tandem::report {

// Returns the text of `graph`. `title` begins the first line: "gpt2, batch 8"; `samples` is the
// batch size.
//   # gpt2, batch 8: 124M parameters (498 MB), 2.33 TFLOP forward, 294 nodes
//   # parameters: 85.1M transformer, 39.4M word_embedding
//   # per sample: 292 GFLOP, 3.15 MB of embedding lookups; per token: 285 MFLOP, ...
//   graph gpt2
//   ...
std::string graph_text(const graph::Graph& graph, const std::string& title, std::int64_t samples);

}  // namespace tandem::report

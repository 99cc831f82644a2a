// The two hashes of a graph (see Graph). Merkle hashes from the outputs, so neither names nor the
// order of independent nodes matter; nodes that no output needs do not count.
#pragma once

#include "graph/graph.h"

namespace tandem::graph {

enum class HashKind : std::uint8_t { kIdentity, kShape };

Hash hash_graph(const Graph& graph, HashKind kind);

}  // namespace tandem::graph

// The two hashes of a graph (see Graph). They are Merkle hashes from the outputs, so they ignore
// non-source names and the order of independent nodes. Nodes that no output needs do not count.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace tandem::graph {

enum class HashKind : std::uint8_t { kIdentity, kShape };

Hash hash_graph(const Graph& graph, HashKind kind);

// Returns for each node a hash of what it computes: hash_node over its operands' hashes. Inputs and
// weights are hashed by name (kIdentity) or number (kShape).
std::vector<Hash> hash_nodes(const Graph& graph, HashKind kind);

// Returns a node's hash from its operator's hash and its operands in order; `hash_of` hashes an
// operand.
template <class Inputs, class HashOf>
Hash hash_node(Hash op, const Inputs& inputs, const HashOf& hash_of) {
  for (auto input : inputs) op = hash_combine(op, hash_of(input));
  return op;
}
// Returns a graph's hash from its outputs in order.
template <class Outputs, class HashOf>
Hash hash_outputs(const Outputs& outputs, const HashOf& hash_of) {
  return hash_node(hash_text("graph"), outputs, hash_of);
}

}  // namespace tandem::graph

// The two hashes of a graph (see Graph). Merkle hashes from the outputs, so neither names nor the
// order of independent nodes matter; nodes that no output needs do not count.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace tandem::graph {

enum class HashKind : std::uint8_t { kIdentity, kShape };

Hash hash_graph(const Graph& graph, HashKind kind);

// By node, of what it computes: node_hash over its operands' hashes; of inputs and weights, of
// their names or numbers.
std::vector<Hash> node_hashes(const Graph& graph, HashKind kind);

// Of a node, of its operator's hash and its operands' in order; `hash_of` gives an operand's.
template <class Inputs, class HashOf>
Hash node_hash(Hash op, const Inputs& inputs, const HashOf& hash_of) {
  for (auto input : inputs) op = hash_combine(op, hash_of(input));
  return op;
}
// Of a graph, of its outputs in order.
template <class Outputs, class HashOf>
Hash outputs_hash(const Outputs& outputs, const HashOf& hash_of) {
  return node_hash(hash_text("graph"), outputs, hash_of);
}

}  // namespace tandem::graph

// The two hashes of a graph (see Graph). Merkle hashes from the outputs, so neither names nor the
// order of independent nodes matter; nodes that no output needs do not count.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace tandem::graph {

enum class HashKind : std::uint8_t { kIdentity, kShape };

Hash hash_graph(const Graph& graph, HashKind kind);

// By node, of what it computes: node_hash over its operands' hashes.
std::vector<Hash> node_hashes(const Graph& graph, HashKind kind);

// Of a node that is no source, of its operator and its operands in order.
inline Hash node_hash(const ops::Op& op, std::span<const Hash> inputs) {
  Hash h = op.hash();
  for (auto input : inputs) h = hash_combine(h, input);
  return h;
}
// Of a graph, of its outputs in order.
inline Hash outputs_hash(std::span<const Hash> outputs) {
  Hash h = hash_text("graph");
  for (auto output : outputs) h = hash_combine(h, output);
  return h;
}

}  // namespace tandem::graph

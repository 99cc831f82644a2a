// Finds the edges of a graph that nothing can overlap. While a tensor moves along such an edge,
// every operator either has run already or waits for it. Only there is resharding sure to block.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace tandem::search {

// The part of a pass in which something runs. Operators that are ordered relative to all others
// divide the pass into segments. A segment begins only after the one before has ended.
enum class Segment : std::uint8_t {
  kChain,     // a segment of one operator
  kBranches,  // a segment of several operators, some of which may overlap
  kAnytime,   // any segment: operations without operands, and gradients of weights
};
inline constexpr std::size_t kSegments = 3;

class Precedence {
 public:
  explicit Precedence(const graph::Graph& model);

  // Returns whether every operator, except those before `from`'s tensor and its producer, comes
  // after it.
  [[nodiscard]] bool blocks(graph::NodeId from) const { return orders_all_[from.index()]; }
  // Returns whether every such operator comes at or after `to`, which reads `from`.
  [[nodiscard]] bool blocks(graph::NodeId from, graph::NodeId to) const;

  // Returns the segment that an operator runs in.
  [[nodiscard]] Segment get_segment(graph::NodeId id) const;
  // Returns the segment in which its tensor is resharded for its readers.
  [[nodiscard]] Segment get_segment_after(graph::NodeId from) const;
  // Returns whether there is a segment of this kind.
  [[nodiscard]] bool has(Segment segment) const;

 private:
  std::vector<std::int64_t> position_;  // by node: index among operators; -1 for a source
  std::vector<Segment> segments_;       // by position
  std::vector<bool> orders_all_;        // by node: whether it is ordered relative to every operator
};

}  // namespace tandem::search

// Which edges of a graph nothing can overlap: while a tensor moves along one, every operator either
// has already run or waits for it. Only there is resharding sure to block.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace tandem::search {

// When in a pass something runs. Operators that all others come before or after divide the pass
// into segments, and nothing of one segment begins before all of the one before has ended.
enum class Segment : std::uint8_t {
  kChain,     // a segment of one operator
  kBranches,  // one of several, of which some may run beside others
  kAnytime,   // in any: what needs no operator's result, and gradients of weights
};
inline constexpr std::size_t kSegments = 3;

class Precedence {
 public:
  explicit Precedence(const graph::Graph& model);

  // All that do not come before `from`'s tensor (its operator included) come after it.
  [[nodiscard]] bool blocks(graph::NodeId from) const { return orders_all_[from.index()]; }
  // `to` reads `from`. All that do not come before `from`'s tensor come at or after `to`.
  [[nodiscard]] bool blocks(graph::NodeId from, graph::NodeId to) const;

  // The segment that an operator runs in.
  [[nodiscard]] Segment segment_of(graph::NodeId id) const;
  // The one in which its tensor moves to those that read it.
  [[nodiscard]] Segment segment_after(graph::NodeId from) const;
  // Is there a segment of this kind?
  [[nodiscard]] bool has(Segment segment) const;

 private:
  std::vector<std::int64_t> position_;  // by node: among operators; of a source -1
  std::vector<Segment> segments_;       // by position
  std::vector<bool> orders_all_;  // by node: does each other operator come before or after it?
};

}  // namespace tandem::search

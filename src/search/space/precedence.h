// Which edges of a graph nothing can overlap: while a tensor moves along one, every operator either
// has already run or waits for it. Only there is resharding sure to block.
// Takes a bit for every pair of nodes, so of very large graphs nothing is claimed.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace tandem::search {

class Precedence {
 public:
  explicit Precedence(const graph::Graph& model);

  // All that do not come before `from`'s tensor (its operator included) come after it.
  [[nodiscard]] bool blocks(graph::NodeId from) const;
  // All that do not come before `from`'s tensor come at or after `to`.
  [[nodiscard]] bool blocks(graph::NodeId from, graph::NodeId to) const;

 private:
  static constexpr std::size_t kMostNodes = std::size_t{1} << 15U;

  bool known_ = true;
  std::size_t operators_ = 0;
  std::vector<std::size_t> before_;  // by node: operators at or before it
  std::vector<std::size_t>
      after_;  // by node: operators at or after it; a source itself not counted
};

}  // namespace tandem::search

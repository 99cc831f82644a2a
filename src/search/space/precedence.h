// Which edges of a graph nothing can overlap: while a tensor moves along one, every operator either
// has already run or waits for it. Only there is resharding sure to block.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace tandem::search {

class Precedence {
 public:
  explicit Precedence(const graph::Graph& model);

  // All that do not come before `from`'s tensor (its operator included) come after it.
  [[nodiscard]] bool blocks(graph::NodeId from) const { return orders_all_[from.index()]; }
  // `to` reads `from`. All that do not come before `from`'s tensor come at or after `to`.
  [[nodiscard]] bool blocks(graph::NodeId from, graph::NodeId to) const;

 private:
  std::vector<std::int64_t> position_;  // by node: among operators; of a source -1
  std::vector<bool> orders_all_;  // by node: does each other operator come before or after it?
};

}  // namespace tandem::search

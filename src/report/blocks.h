// Splits a model into blocks, with repeated layers as one block. The iterations are those that
// graph/fold.h finds, as far as their nodes are also equivalent: a plan may partition the
// first layer differently from the others.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tandem::report {

struct BlockNode {
  graph::NodeId id;                   // node of the block's first iteration
  std::string name;                   // "l{i}.ffn1"
  std::vector<std::string> operands;  // names as in graph text: of the block, outer, or carried
};

// Nodes or nested blocks, and how often they repeat.
struct FoldedBlock {
  // A value from the previous iteration: `name` is `first` in the first iteration, and later the
  // previous iteration's `later`.
  struct Carry {
    std::string name, first, later;
  };

  std::int64_t count = 1;
  // If count is more than 1, the block has iterations of `period` nodes each, from node `start` on.
  // In names, `variable` is the number of the iteration, which begins at `from`.
  std::string variable = {};  // "{i}"
  std::int64_t from = 0;
  graph::NodeId start = {};
  std::size_t period = 0;
  std::vector<Carry> carries = {};

  std::vector<BlockNode> nodes = {};
  std::vector<FoldedBlock> blocks = {};
};

using NodeEquivalence = std::function<bool(graph::NodeId, graph::NodeId)>;
// Returns the blocks of `model`. Folds nothing if `is_equivalent` returns false for all pairs.
std::vector<FoldedBlock> split_into_blocks(const graph::Graph& model,
                                           const NodeEquivalence& is_equivalent);

}  // namespace tandem::report

// A model in blocks: what repeats stands once. Rounds are those that graph/fold.h finds, as far as
// they are also `alike`: a plan may spread the first layer differently from the others.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tandem::report {

struct BlockNode {
  graph::NodeId id;                   // in the block's first round
  std::string name;                   // "l{i}.ffn1"
  std::vector<std::string> operands;  // names as in graph text: the block's, outer or carried ones
};

// Has nodes, or blocks inside it.
struct Block {
  // `name` is `first` in the first round and then `later` of the round before.
  struct Carry {
    std::string name, first, later;
  };

  std::int64_t count = 1;
  // Where count is more than 1: rounds of `period` nodes each, from node `start` on; in names
  // `variable` stands for the round's number, which begins at `from`.
  std::string variable = {};  // "{i}"
  std::int64_t from = 0;
  graph::NodeId start = {};
  std::size_t period = 0;
  std::vector<Carry> carries = {};

  std::vector<BlockNode> nodes = {};
  std::vector<Block> blocks = {};
};

using Alike = std::function<bool(graph::NodeId, graph::NodeId)>;
// Where nothing is alike nothing folds, and all names are the nodes' own.
std::vector<Block> blocks_of(const graph::Graph& model, const Alike& alike);

}  // namespace tandem::report

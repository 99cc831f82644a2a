// Folding of repeated blocks in a graph. fold() finds repetition by the numbers in the nodes'
// names, and the text shows every block once:
//
//   repeat 24 as i from 0                              # 24 x (12.6M parameters, 13.1 GFLOP)
//     carry %in = %x then %l{i}.ffn_norm
//     %l{i}.w_q = weight() shape=[16, 64, 1024]        # 1.05M parameters
//     ...
//   end
//
// Consecutive nodes form a round if the next nodes are the same with a number one larger. They must
// have the same operators, types and inputs; an input may also come from the previous round (it is
// carried). Rounds fold inside rounds. parse_graph restores the same nodes under the same names in
// the same order.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tandem::graph {

// One line between `graph` and `return`.
struct FoldedLine {
  enum class FoldedLineKind : std::uint8_t { kNode, kRepeat, kCarry, kEnd };
  FoldedLineKind kind = FoldedLineKind::kNode;
  int depth = 0;           // number of enclosing repeats
  std::string text;        // text without indentation
  NodeId first = {};       // node of the first round; for a repeat, its first node
  std::size_t nodes = 1;   // number of nodes of one round
  std::int64_t count = 1;  // number of rounds of a repeat
  std::int64_t from = 0;   // number of the first round
  // Names as they are written. A node has its own name and its operands'. A repeat has the
  // placeholder of the round's number, "{i}". A carry has its own name, its value in the first
  // round, and its value in later rounds.
  std::string name = {};
  std::vector<std::string> operands = {};
};

// Folds the graph where that saves lines. The time is near linear in the graph's size.
std::vector<FoldedLine> fold(const Graph& graph);

struct FoldedTextOptions {
  std::vector<std::string> header;                          // comment lines at the top
  std::function<std::string(const FoldedLine&)> comment{};  // end of a line; empty: none
};

std::string to_folded_text(const Graph& graph, const FoldedTextOptions& options = {});

}  // namespace tandem::graph

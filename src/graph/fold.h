// Repetition in a graph, found by the numbers in its names, and the text that shows every block
// once:
//
//   repeat 24 as i from 0                              # 24 x (12.6M parameters, 13.1 GFLOP)
//     carry %in = %x then %l{i}.ffn_norm
//     %l{i}.w_q = weight() shape=[16, 64, 1024]        # 1.05M parameters
//     ...
//   end
//
// Consecutive nodes form a round when the next nodes are the same with a number one larger: the
// same operators, types and inputs, where an input may also be of the round before (it is carried).
// Rounds fold inside rounds. parse_graph gives back the same nodes under the same names in the same
// order.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tandem::graph {

// One line between `graph` and `return`.
struct FoldedLine {
  enum class Kind : std::uint8_t { kNode, kRepeat, kCarry, kEnd };
  Kind kind = Kind::kNode;
  int depth = 0;           // repeats around it
  std::string text;        // without indentation
  NodeId first = {};       // of a node: itself, in the first round; of a repeat: its first node
  std::size_t nodes = 1;   // of one round
  std::int64_t count = 1;  // rounds of a repeat
  std::int64_t from = 0;   // the number of its first round
  // Names as they are written. Of a node: its own and its operands'; of a repeat: what stands for
  // the round's number, "{i}"; of a carry: its own, its value in the first round, and in later
  // ones.
  std::string name = {};
  std::vector<std::string> operands = {};
};

// In time near linear in the graph's size. Folds only where that saves lines.
std::vector<FoldedLine> fold(const Graph& graph);

struct FoldedTextOptions {
  std::vector<std::string> header;                          // lines of comment at the top
  std::function<std::string(const FoldedLine&)> comment{};  // behind a line; empty: none
};

std::string to_folded_text(const Graph& graph, const FoldedTextOptions& options = {});

}  // namespace tandem::graph

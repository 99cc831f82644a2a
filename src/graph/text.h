// The text of a graph, which parses back to the same graph:
//
//   graph mlp
//   %x = input() shape=[64, 784]
//   %w1 = weight() shape=[512, 784]
//   %h1 = linear(%x, %w1) act=relu : [64, 512] fp32
//   return %h1
//
// A '#' starts a comment. The type after ':' may be left out; where given it is checked.
//
// Blocks that repeat may be written once; graph/fold.h finds and prints them:
//
//   repeat 24 as i from 0
//     carry %in = %x then %l{i}.out
//     %l{i}.w = weight() shape=[64, 64]
//     %l{i}.out = linear(%in, %l{i}.w)
//   end
//
// Names hold the number of the round in braces. `carry` names a value that is %x in the first round
// and in every later one the %l{i}.out of the round before.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace tandem::graph {

std::string to_text(const Graph& graph);

// `source` is how messages call the text ("model.graph"). Throws UserError with "source:line".
Graph parse_graph(std::string_view text, const std::string& source = "graph");

// "[64, 512] fp32": as texts write a type.
std::string type_text(const TensorType& type);
// `act=relu index="a b -> b" shape=[2, 3]` as a list; nothing where a part is not name=value.
std::optional<ops::AttributeList> split_attributes(std::string_view text);

// The line of a node, under the name and with the inputs' names given.
std::string node_text(const Node& node, std::string_view name,
                      std::span<const std::string_view> inputs);
// The last line: "return %loss".
std::string return_text(const Graph& graph);

// Is it the text of a graph: is "graph" its first word?
bool is_graph_text(std::string_view text);

}  // namespace tandem::graph

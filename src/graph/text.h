// The text form of a graph, which parses back to the same graph:
//
//   graph mlp
//   %x = input() shape=[64, 784]
//   %w1 = weight() shape=[512, 784]
//   %h1 = linear(%x, %w1) act=relu : [64, 512] fp32
//   return %h1
//
// A '#' starts a comment. The type after ':' is optional and is checked if it is given.
//
// A repeated block can be written once; graph/fold.h finds and prints such blocks:
//
//   repeat 24 as i from 0
//     carry %in = %x then %l{i}.out
//     %l{i}.w = weight() shape=[64, 64]
//     %l{i}.out = linear(%in, %l{i}.w)
//   end
//
// Names contain the round's number in braces. `carry` defines a name that is %x in the first round,
// and the %l{i}.out of the previous round in every later one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace tandem::graph {

std::string to_text(const Graph& graph);

// Parses a graph. `source` is the text's name in messages ("model.graph"). Throws UserError with
// "source:line".
Graph parse_graph(std::string_view text, const std::string& source = "graph");

// Returns a type as texts write it: "[64, 512] fp32".
std::string format_type(const TensorType& type);
// Splits `act=relu index="a b -> b" shape=[2, 3]` into a list. Returns nullopt if a part is not
// name=value.
std::optional<ops::AttributeList> split_attributes(std::string_view text);

// Returns the line of a node that uses the given names of the node and its inputs.
std::string format_node(const Node& node, std::string_view name,
                        std::span<const std::string_view> inputs);
// Returns the last line: "return %loss".
std::string format_return(const Graph& graph);

// Returns whether the text is a graph: its first word is "graph".
bool is_graph_text(std::string_view text);

}  // namespace tandem::graph

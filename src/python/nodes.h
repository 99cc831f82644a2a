// A node of a graph as Python has it: names and plain values, good without its graph.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tandem::python {

struct NodeView {
  std::string name;
  std::string op;
  std::map<std::string, std::string> attributes;  // those that are not the default, as text
  std::vector<std::string> inputs;                // names
  std::vector<std::int64_t> shape;
  std::string dtype;
};

NodeView view(const graph::Node& node, std::vector<std::string> inputs);

}  // namespace tandem::python

// A graph's node in Python: names and plain values, valid without its graph.
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
  std::map<std::string, std::string>
      attributes;                   // as text; without those that have the default value
  std::vector<std::string> inputs;  // names of nodes
  std::vector<std::int64_t> shape;
  std::string dtype;
};

NodeView make_node_view(const graph::Node& node, std::vector<std::string> inputs);

}  // namespace tandem::python

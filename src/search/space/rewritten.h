// The model as rules have rewritten it, with the derivation that shows it.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "rewrite/step.h"

namespace tandem::search {

struct Rewritten {
  graph::Graph graph;
  rewrite::Derivation derivation;
  std::vector<std::string> rules;  // those used, as text
};

}  // namespace tandem::search

// The model after rewrites, with the derivation that proves it equivalent.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "rewrite/derivation_step.h"

namespace tandem::search {

struct Rewritten {
  graph::Graph graph;
  rewrite::Derivation derivation;
  std::vector<std::string> rules;  // text of the rules used
};

}  // namespace tandem::search

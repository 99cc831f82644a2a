// Looks for a derivation: how rules turn one graph into another. Best first, by how many nodes are
// not as in the graph that is wanted, so it goes straight where rules lead straight and tries
// detours in the order of their length. What it finds is a proof; that it finds nothing is none.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "rewrite/derivation.h"

namespace tandem::rewrite {

struct DeriveLimits {
  std::size_t graphs = 20'000;  // looked at
  std::size_t steps = 40;       // of a derivation
};

struct Derived {
  std::optional<Derivation> derivation;  // empty steps where the graphs are equal
  std::size_t graphs = 0;                // looked at
  bool is_complete = false;              // nothing else can be reached: there is no derivation
};

// Degrees to choose are those that parallelization operators of either graph have.
Derived derive(const graph::Graph& from, const graph::Graph& to, const std::vector<Rule>& rules,
               const DeriveLimits& limits = {});

// The rules, and those of their reversals that are rules, named with "-reversed". A proved rule is
// an equality, so its reversal is as true.
std::vector<Rule> with_reversals(const std::vector<Rule>& rules);

}  // namespace tandem::rewrite

// How a plan's graph is made of the model's, beside the algebra: as a derivation by shipped rules
// that are proved. They cut each operator, taken alone, a factor at a time; what then stands on the
// way from one operator to the next, a tensor put together and cut again, is turned by rules about
// such operators alone into what the plan has there.
//
// Operators that are cut by the same steps are one derivation at several places, and so are ways.
// What no rule leads to is named: that it is right is seen by values alone.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "machine/digits.h"
#include "plan/plan.h"

namespace tandem::plan {

std::size_t step_count(const Parallelization& of);

Parallelization parallelization_of(const MappedGraph& mapped, const machine::Digits& digits);

// What replaying one has shown.
struct Replayed {
  struct Part {
    std::size_t places = 0;  // that the steps lead to
    std::size_t steps = 0;   // at all of them
    std::set<std::string> rules = {};
    std::vector<std::string> without = {};  // places that no steps lead to
  };
  Part cuts = {};
  Part ways = {};
};

// Throws UserError("derivation", place, ...) where the steps do not lead to the graph, or there are
// none where it is cut.
Replayed replay(const graph::Graph& pcg, const Parallelization& steps);

}  // namespace tandem::plan

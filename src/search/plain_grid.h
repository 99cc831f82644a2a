// The complete grid of plain strategies: every way to divide the devices into tensor, context, data
// and pipeline parallel groups, with every micro-batch size, number of virtual stages, ZeRO stage
// and recomputation.
//
// The grid has up to millions of strategies, of which a few hundred are evaluated: each has proved
// lower bounds of its step time and memory (search/grid_bounds.h), and the rest are pruned by these
// alone. Evaluation goes from the lowest bound on, so that it ends when the next bound is above the
// best step time.
#pragma once

#include <functional>
#include <vector>

#include "search/grid_search.h"

namespace tandem::search {

struct GridOptions {
  bool sequence = true;  // may strategies divide sequences?
  bool pipeline = true;  // may they have several stages?
  // Does the user allow what these digits do?
  std::function<bool(const strategies::Setting&)> allowed = {};
  std::function<bool()> stop = {};  // asked between evaluations
};

// The strategies of the grid that were evaluated: those that fit and are within kNear of the
// fastest are all among them. `estimates` are of the case `on`, which has a network.
std::vector<Estimated> evaluate_grid(const Case& on, Estimates& estimates,
                                     const GridOptions& options);

}  // namespace tandem::search

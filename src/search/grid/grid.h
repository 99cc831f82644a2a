// The complete grid of plain strategies: every way to divide the devices into tensor, context, data
// and pipeline parallel groups, with every micro-batch size, number of virtual stages, ZeRO stage
// and recomputation.
//
// The grid has up to millions of strategies, of which few are evaluated: each has proved lower
// bounds of its step time and memory, and the rest are pruned by these alone. Evaluation goes from
// the lowest bound on, and ends when the next bound is above the best step time.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "search/grid/grid_model.h"

namespace tandem::search {

struct GridOptions {
  bool sequence = true;  // may strategies divide sequences?
  bool pipeline = true;  // may they have several stages?
  bool stale = false;    // all are pipelines whose updates come one step late
  // Do the user's dimensions allow the pass of this setting?
  std::function<bool(const strategies::Setting&)> allowed = {};
  std::function<bool()> stop = {};  // asked between evaluations
  // Strategies slower than this times the best are pruned.
  double near = 1.02;
  // Strategies that are no faster than this are pruned from the beginning.
  double beat = std::numeric_limits<double>::infinity();
  // Ends when evaluations that took so much work (GridModel::work) have found nothing faster that
  // fits. A limit of time, where each is simulated, and no proof.
  double patience = std::numeric_limits<double>::infinity();
  // Strategies that were evaluated before: they are not evaluated again.
  std::vector<Evaluated> known = {};
  // Once something fits, finds the fastest of every family that fits, too, or what needs least
  // memory of a family of which nothing fits.
  bool each_family = false;
  // Only what needs least memory is looked for: ends with the first that surely fits.
  bool smallest = false;
};

struct GridResult {
  std::vector<Evaluated> evaluated;
  // Lower bound of the step times of all others that may fit, in seconds.
  double others = 0;
  // What all devices together compute at least in a step, in seconds; 0 where it is not known.
  double device_seconds = 0;
};

// The strategies of the grid that were evaluated: all that fit and are within GridOptions::near of
// the fastest are among them, but for those that are known. Where none fits, those that may need
// least memory are.
GridResult evaluate_grid(const Case& on, GridModel& model, const GridOptions& options);

}  // namespace tandem::search

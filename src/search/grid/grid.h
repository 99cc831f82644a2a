// The complete grid of plain strategies: every way to divide the devices into tensor, context, data
// and pipeline parallel groups, with every micro-batch size, number of virtual stages, ZeRO stage
// and recomputation.
//
// The grid has up to millions of strategies, of which few are evaluated. Each strategy has proved
// lower bounds of its step time and memory, and these bounds alone prune most of them. Evaluation
// goes by ascending bound and ends when the next bound is above the best step time.
//
// Example: strategies A, B and C have bounds of 9, 10 and 12 ms, and `near` is 1.02. A takes 11 ms.
// B may be faster and takes 10.5 ms. C is above 1.02 x 10.5 ms and is not evaluated.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "search/grid/grid_model.h"

namespace tandem::search {

struct GridOptions {
  bool sequence = true;  // whether strategies may divide sequences
  bool pipeline = true;  // whether they may have several stages
  bool stale = false;    // whether all are pipelines with updates one step late
  // Returns whether the user's dimensions allow the pass of this setting.
  std::function<bool(const strategies::Setting&)> allowed = {};
  std::function<bool()> stop = {};  // called between evaluations
  // Strategies slower than this times the best are pruned.
  double near = 1.02;
  // Strategies that are no faster than this are pruned from the beginning.
  double beat = std::numeric_limits<double>::infinity();
  // Work (GridModel::work) without a faster strategy that fits after which evaluation ends. It
  // limits time if strategies are simulated; then nothing is proved.
  double patience = std::numeric_limits<double>::infinity();
  // Strategies that were evaluated before and need no evaluation.
  std::vector<Evaluated> known = {};
  // Once something fits, also finds the fastest of every family that fits. For a family in which
  // nothing fits it finds the one that needs the least memory.
  bool each_family = false;
  // Searches only for the least memory and ends with the first strategy that surely fits.
  bool smallest = false;
};

struct GridResult {
  std::vector<Evaluated> evaluated;
  // Lower bound in seconds of the step times of all other strategies that may fit.
  double others = 0;
  // Lower bound of the compute of all devices together in a step, in device-seconds; 0 if unknown.
  double device_seconds = 0;
};

// Evaluates strategies of the grid. The result has all that fit and are within GridOptions::near of
// the fastest, except for `known` ones. If none fits, it has those that may need the least memory.
GridResult evaluate_grid(const Case& on, GridModel& model, const GridOptions& options);

}  // namespace tandem::search

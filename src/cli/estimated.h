// A named strategy's step, estimated (predict/estimator.h): for networks so large that simulating
// every task takes long.
#pragma once

#include "cli/advice.h"
#include "cli/command.h"

namespace tandem::cli {

struct Estimated {
  plan::Plan plan;  // what was run; its graph is folded
  machine::Machine machine;
  predict::Simulation simulation;
  search::Tightest memory;
  double margin = 0;
  std::string margin_text;
  std::int64_t tokens = 0;  // of a step
  std::int64_t layers = 0;
};

// The fastest that the strategy's name stands for, as lower_strategy takes it. Nothing where the
// network is small, is not trained as it is, or where a strategy has no estimate.
std::optional<Estimated> estimate_strategy(const Job& job, const std::string& strategy);

void print(const Estimated& estimated, const Advice& advice);
Json to_json(const Estimated& estimated, const Advice& advice);

}  // namespace tandem::cli

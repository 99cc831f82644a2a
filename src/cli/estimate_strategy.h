// Estimates the step of a named strategy (predict/estimator.h). Used for networks so large that
// simulating every task takes long.
#pragma once

#include "cli/advice.h"
#include "cli/command.h"

namespace tandem::cli {

struct Estimated {
  plan::Plan plan;  // the estimated plan; its graph is folded
  machine::Machine machine;
  predict::Simulation simulation;
  search::Tightest memory;
  double margin = 0;
  std::string margin_text;
  std::int64_t tokens = 0;  // tokens per step
  std::int64_t layers = 0;
};

// Estimates the fastest setting that the strategy's name stands for, as lower_strategy does.
// Returns nullopt if the network is small, if the job is not the training of the whole network, or
// if one of the settings has no close estimate.
std::optional<Estimated> estimate_strategy(const Job& job, const std::string& strategy);

void print(const Estimated& estimated, const Advice& advice);
Json to_json(const Estimated& estimated, const Advice& advice);

}  // namespace tandem::cli

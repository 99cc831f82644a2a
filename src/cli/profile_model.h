// The operators of a network as training runs them, for a machine file: the network is trained for
// some steps under data parallelism and under the plans found, and what each task took becomes a
// line `measured` of the file (machine/measured.h).
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace tandem::cli {

struct TrainedPlan {
  std::string model;
  std::string strategy;
  Seconds predicted;  // when the plan was made
  Seconds now;        // with what its own training said of its tasks
  Seconds measured;
};

// Of the network in `job`, whose machine has the file `path`, which has a device. A plan found is
// not trained where all of its tasks are known; one that is may lead to another plan.
std::vector<TrainedPlan> profile_model(const Job& job, const std::string& path);

// The same of small networks of each sort, under data and tensor parallelism: tables, perceptrons,
// transformers and convolutions, so that other networks' operators are corrected by what is like
// them. `job` has the machine and the type.
std::vector<TrainedPlan> profile_samples(const Job& job, const std::string& path);

}  // namespace tandem::cli

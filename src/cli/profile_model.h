// Measures the operators of a network for a machine file. The network is trained for some steps
// under data parallelism and under the plans that a search finds. The time of each task becomes a
// line `measured` of the file (machine/measured.h).
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace tandem::cli {

struct TrainedPlan {
  std::string model;
  std::string strategy;
  Seconds predicted;  // step time predicted before training
  Seconds now;        // step time predicted with the measured tasks
  Seconds measured;   // median step time
};

// Measures the network of `job`, whose machine is the machine file `path`, and adds its tasks to
// the file. Searches and trains until the plan found has only known tasks, since each training may
// lead to another plan. Returns the trained plans.
std::vector<TrainedPlan> profile_model(const Job& job, const std::string& path);

// Measures small networks of each kind under data and tensor parallelism: embedding tables, MLPs,
// transformers and convolutions. Similar operators of other networks are corrected by them. `job`
// has the machine and the element type. Returns the trained plans.
std::vector<TrainedPlan> profile_samples(const Job& job, const std::string& path);

}  // namespace tandem::cli

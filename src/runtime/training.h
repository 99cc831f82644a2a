// A training run: step after step, with checkpoints, time-outs, and losses that must be numbers.
#pragma once

#include <vector>

#include "runtime/arguments.h"
#include "runtime/checkpoint.h"
#include "runtime/executor.h"
#include "runtime/world.h"

namespace tandem::runtime {

struct Measurements {
  std::vector<double> step_s;
  std::vector<double> exposed_s;  // of each step, on the device where it was most
  std::vector<double> data_s;     // what a step waited for its inputs before, on the same terms
  std::vector<double> loss;
  std::vector<std::int64_t> checkpoints;  // after so many steps
  Executor::Overlap overlap;              // of the last step, on this device
  std::vector<double> first_start_s;      // Overlap's, of each step
  std::vector<double> backward_end_s;
};

// Steps from `first` to arguments.steps. Throws Failed.
Measurements train(Executor& executor, const Training& training, const Checkpoints* checkpoints,
                   std::int64_t first, const Arguments& arguments, const World& world,
                   const Deadline& deadline);

}  // namespace tandem::runtime

// A training run: steps, checkpoints, time-outs, and a check that every loss is finite.
#pragma once

#include <vector>

#include "runtime/checkpoint.h"
#include "runtime/executor.h"
#include "runtime/worker_job.h"
#include "runtime/world.h"

namespace tandem::runtime {

struct Measurements {
  std::vector<double> step_s;
  std::vector<double> exposed_s;  // Exposed communication of each step, maximum over devices
  std::vector<double> data_s;     // Time to get each step's inputs, maximum over devices
  std::vector<double> loss;
  std::vector<std::int64_t> checkpoints;  // Steps done at each checkpoint
  Executor::Overlap overlap;              // Last step on this device
  std::vector<double> first_start_s;      // Overlap's times of each step
  std::vector<double> backward_end_s;
};

// Trains from step `first` to job.steps and returns the measurements. Throws Failed if a rank
// fails.
Measurements train(Executor& executor, const TrainingOptions& training,
                   const Checkpoints* checkpoints, std::int64_t first, const WorkerJob& job,
                   const World& world, const Deadline& deadline);

}  // namespace tandem::runtime

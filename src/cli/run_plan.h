// Trains a network under a plan on this computer: runs tandem_worker under mpirun, one process per
// device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/launch.h"

namespace tandem::cli {

struct TrainingRun {
  std::int64_t steps = 20;
  std::optional<std::uint64_t> seed = {};  // default: the checkpoint's, or 0
  std::optional<double> rate = {};  // learning rate; default: the checkpoint's, or by optimizer
  // Seconds after the first step during which steps may start; at least two steps run.
  std::optional<double> seconds = {};
  std::optional<std::int64_t> timeout = {};  // of a step, in seconds
  std::string checkpoints = {};              // directory; empty: no checkpoints
  std::optional<std::int64_t> every = {};    // steps between checkpoints; default: by their cost
  bool resume = false;
  std::string data = {};       // file or directory; empty: synthetic data
  std::string device = "cpu";  // or "cuda"
  bool measure = false;        // adds "task_s" to the result: seconds of each task, by number
};

// Returns whether the times of `machine` are from another computer: it is the built-in `local`,
// which `tandem profile` replaces.
bool is_measured_elsewhere(const std::string& machine);

// Trains under `plan` and calls `on_step`, if it is given, when a step has ended. Returns the
// worker's report, the predicted step time, and what was run. Throws UserError if this computer
// cannot run the plan.
Json run_plan(const plan::Plan& plan, const TrainingRun& run,
              const StepListener& on_step = nullptr);

}  // namespace tandem::cli

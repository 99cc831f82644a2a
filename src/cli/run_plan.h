// Trains under a plan on this computer: tandem_worker under mpirun, one process per device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/command.h"

namespace tandem::cli {

struct Run {
  std::int64_t steps = 20;
  std::optional<std::uint64_t> seed = {};  // 0, or the checkpoint's
  std::optional<double> rate = {};         // by optimizer, or the checkpoint's
  // No step begins later than so many seconds after the first one; two are run in any case.
  std::optional<double> seconds = {};
  std::optional<std::int64_t> timeout = {};  // of a step, in seconds
  std::string checkpoints = {};              // a folder; empty: none are kept
  std::optional<std::int64_t> every = {};    // steps; otherwise as often as is cheap
  bool resume = false;
  std::string data = {};       // a file or folder; empty: synthetic
  std::string device = "cpu";  // or "cuda"
  bool measure = false;        // what every task takes: "task_s", seconds by number
};

// One of the others where a launcher has started several processes: the first has the plan. Returns
// the exit code.
int join_run(const Run& run);

// Are its times another computer's: is it `local` as built in, which `tandem profile` replaces?
bool is_measured_elsewhere(const std::string& machine);

// What the worker reports, the prediction, and what was run. Throws UserError where this computer
// cannot run the plan.
Json run_plan(const plan::Plan& plan, const Run& run);

}  // namespace tandem::cli

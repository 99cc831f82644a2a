// The command-line flags of tandem_worker.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

namespace tandem::runtime {

struct Arguments {
  std::string plan;            // Path that the first process reads
  std::string profile;         // "full" or "quick": measures instead of running a plan
  std::int64_t threads = 1;    // Threads of each process with `run_profile`
  std::string data;            // File or directory; empty: synthetic data
  std::string device = "cpu";  // "cpu" or "cuda"
  std::int64_t steps = 10;
  std::optional<std::uint64_t> seed;  // Default: the checkpoint's, or 0
  std::optional<double> rate;         // Default: the checkpoint's, or the optimizer's
  // Time-out in seconds of each step, measurement or checkpoint; default: see training.cc.
  std::optional<std::int64_t> timeout;
  double seconds = std::numeric_limits<double>::infinity();  // End of steps; two always run
  bool progress = false;                                     // Prints a progress line on stderr
  bool notes = true;                  // Prints notes on stderr about slow operators and resuming
  std::string checkpoints;            // Directory; empty: no checkpoints
  std::optional<std::int64_t> every;  // Steps; default: a tenth of the run time goes to checkpoints
  bool resume = false;
  bool measure = false;  // Measures the time of each task
};

struct UsageError {
  std::string message;
};

extern const char* const kUsage;

Arguments parse_arguments(std::span<char*> argv);  // Throws UsageError.

}  // namespace tandem::runtime

// The flags of tandem_worker.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

namespace tandem::runtime {

struct Arguments {
  std::string plan;            // the first process reads it
  std::string profile;         // "full" or "quick": measure, in place of a plan
  std::int64_t threads = 1;    // of a process that measures
  std::string data;            // a file or folder; empty: synthetic
  std::string device = "cpu";  // or "cuda"
  std::int64_t steps = 10;
  std::optional<std::uint64_t> seed;  // default: the checkpoint's, or 0
  std::optional<double> rate;         // default: the checkpoint's, or by optimizer
  // Seconds for each step, measurement or checkpoint; default: see training.cc.
  std::optional<std::int64_t> timeout;
  double seconds = std::numeric_limits<double>::infinity();  // no step begins later; but two do
  bool progress = false;              // a line on standard error that counts them
  bool notes = true;                  // there, of what is slow or resumed
  std::string checkpoints;            // a folder; empty: none are kept
  std::optional<std::int64_t> every;  // steps; default: as often as takes a tenth of the time
  bool resume = false;
  bool measure = false;  // of every task, how long it takes
};

struct UsageError {
  std::string message;
};

extern const char* const kUsage;

Arguments parse_arguments(std::span<char*> argv);  // UsageError

}  // namespace tandem::runtime

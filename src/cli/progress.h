// How far a command has come: one line on the error stream, from the first second on. On a terminal
// it is written over and over, and gone at the end; elsewhere there is a line every ten seconds. A
// host (cli/host.h) gets it every fifth of a second.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "base/stop.h"

namespace tandem::cli {

// --quiet: neither progress nor notes on the error stream, errors alone.
void add_quiet_flag(CLI::App& command);
bool is_quiet();

class Progress {
 public:
  Progress() = default;
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // From any thread. `what` may change faster than it is shown.
  void show(const std::string& what);

 private:
  using Clock = std::chrono::steady_clock;
  std::mutex mutex_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
  bool shown_ = false;
};

// Tells what is being done at the stop points (base/stop.h) that it passes: for what has no better
// way to say how far it is. At most one at a time. `stops` has a stop point end the work.
class BusyProgress {
 public:
  explicit BusyProgress(std::string what, std::function<bool()> stops = {});

  // From now on.
  void tell(const std::string& what);

 private:
  void show();

  Progress line_;
  std::mutex mutex_;
  std::string what_;
  std::atomic<unsigned> passed_ = 0;
  std::optional<StopWhen> stop_;  // a host has its own
};

}  // namespace tandem::cli

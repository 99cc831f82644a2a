// Progress of a command: one line on stderr, shown after the first second. On a terminal the line
// is overwritten five times a second and erased at the end; elsewhere there is a line every ten
// seconds. A host (cli/host.h) gets a line every fifth of a second.
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

// Adds --quiet: neither progress nor notes are printed to stderr, only errors.
void add_quiet_flag(CLI::App& command);
bool is_quiet();

class Progress {
 public:
  Progress() = default;
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows `what` unless a line was shown shortly before. May be called from any thread.
  void show(const std::string& what);

 private:
  using Clock = std::chrono::steady_clock;
  std::mutex mutex_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
  bool shown_ = false;
};

// Shows what is being done whenever a stop point (base/stop.h) is passed, for work that cannot
// report how far it is. At most one exists at a time. `stops` returns whether a stop point should
// end the work.
class BusyProgress {
 public:
  explicit BusyProgress(std::string what, std::function<bool()> stops = {});

  // Replaces the text that is shown.
  void update(const std::string& what);

 private:
  void show();

  Progress line_;
  std::mutex mutex_;
  std::string what_;
  std::atomic<unsigned> passed_ = 0;
  std::optional<StopWhen> stop_;  // a host has its own
};

}  // namespace tandem::cli

// Handles Ctrl-C. The first one asks a long command to stop early and print its results so far; a
// second one ends it at once. A host handles Ctrl-C itself (cli/host.h).
#pragma once

#include <csignal>
#include <optional>
#include <string>

#include "base/stop.h"
#include "cli/host.h"

namespace tandem::cli {

// Records Ctrl-C while the object exists. At most one object exists at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static bool is_requested();

 private:
  struct sigaction before_ {};
};

// Runs `work`, which has no partial result, and returns its result. Ctrl-C ends it at a stop point
// (base/stop.h) by fail_interrupted(command).
template <class Work>
auto run_interruptible(const std::string& command, Work&& work);

// Throws UserError for a command that was interrupted without a result. For a host, which asked for
// the stop, throws Stopped instead.
[[noreturn]] void fail_interrupted(const std::string& command);

template <class Work>
auto run_interruptible(const std::string& command, Work&& work) {
  const Interrupt interrupt;
  std::optional<StopWhen> stop;  // a host sets its own
  if (host() == nullptr) stop.emplace(Interrupt::is_requested);
  try {
    return work();
  } catch (const Stopped&) {
    fail_interrupted(command);
  }
}

}  // namespace tandem::cli

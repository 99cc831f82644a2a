// Ctrl-C asks a long command to stop early and print what there is; a second one ends it at once.
// A program that has the commands inside sees to Ctrl-C itself (cli/host.h).
#pragma once

#include <csignal>
#include <optional>
#include <string>

#include "base/stop.h"
#include "cli/host.h"

namespace tandem::cli {

// While one exists. At most one at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static bool requested();

 private:
  struct sigaction before_ {};
};

// Does work that has nothing to show before its end: Ctrl-C ends it at a stop point (base/stop.h),
// by fail_interrupted.
template <class Work>
auto interruptible(const std::string& command, Work&& work);

// What a command throws that was stopped with nothing to show for it: a UserError, and to a host,
// which asked for it, Stopped.
[[noreturn]] void fail_interrupted(const std::string& command);

template <class Work>
auto interruptible(const std::string& command, Work&& work) {
  const Interrupt interrupt;
  std::optional<StopWhen> stop;  // a host has its own
  if (host() == nullptr) stop.emplace(Interrupt::requested);
  try {
    return work();
  } catch (const Stopped&) {
    fail_interrupted(command);
  }
}

}  // namespace tandem::cli

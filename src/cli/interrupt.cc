#include "cli/interrupt.h"

#include <atomic>

#include "base/error.h"

namespace tandem::cli {

namespace {

std::atomic<bool> requested_now = false;

// Handler of the second signal: the one from before, which may remove an unfinished file.
struct sigaction second {};

void on_signal(int /*signal*/) {
  requested_now = true;
  ::sigaction(SIGINT, &second, nullptr);
}

}  // namespace

Interrupt::Interrupt() {
  if (host() != nullptr) return;
  requested_now = false;
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigaction(SIGINT, nullptr, &before_);
  second = before_;
  ::sigaction(SIGINT, &action, nullptr);
}

Interrupt::~Interrupt() {
  if (host() == nullptr) ::sigaction(SIGINT, &before_, nullptr);
}

bool Interrupt::is_requested() {
  auto* asked = host();
  return asked != nullptr ? asked->wants_stop() : requested_now.load();
}

void fail_interrupted(const std::string& command) {
  if (host() != nullptr) throw Stopped{};
  throw UserError("interrupted", command, "was interrupted before it finished");
}

}  // namespace tandem::cli

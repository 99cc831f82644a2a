#include "cli/interrupt.h"

#include <atomic>
#include <csignal>

#include "cli/host.h"

namespace tandem::cli {

namespace {

std::atomic<bool> requested_now = false;

void on_signal(int /*signal*/) {
  requested_now = true;
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

Interrupt::Interrupt() {
  if (host() != nullptr) return;
  requested_now = false;
  std::signal(SIGINT, on_signal);
}

Interrupt::~Interrupt() {
  if (host() == nullptr) std::signal(SIGINT, SIG_DFL);
}

bool Interrupt::requested() {
  auto* asked = host();
  return asked != nullptr ? asked->wants_stop() : requested_now.load();
}

}  // namespace tandem::cli

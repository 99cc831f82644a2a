#include "cli/interrupt.h"

#include <atomic>
#include <csignal>

namespace tandem::cli {

namespace {

std::atomic<bool> requested_now = false;

void on_signal(int /*signal*/) {
  requested_now = true;
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

Interrupt::Interrupt() {
  requested_now = false;
  std::signal(SIGINT, on_signal);
}

Interrupt::~Interrupt() { std::signal(SIGINT, SIG_DFL); }

bool Interrupt::requested() { return requested_now; }

}  // namespace tandem::cli

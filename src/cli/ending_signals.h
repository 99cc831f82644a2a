// The signals by which a user, a shell or a cluster ends a command, and what it does about them.
#pragma once

#include <array>
#include <csignal>

namespace tandem::cli {

inline constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP};

// What they did before.
using EndingHandlers = std::array<struct sigaction, kEndingSignals.size()>;

inline EndingHandlers current_ending_handlers() {
  EndingHandlers out{};
  for (std::size_t i = 0; i < out.size(); ++i) ::sigaction(kEndingSignals[i], nullptr, &out[i]);
  return out;
}

// Not of those that are ignored: nohup ignores them, and means it.
inline EndingHandlers handle_ending_signals(void (*handler)(int)) {
  const auto before = current_ending_handlers();
  struct sigaction action {};
  action.sa_handler = handler;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].sa_handler != SIG_IGN) ::sigaction(kEndingSignals[i], &action, nullptr);
  }
  return before;
}

inline void restore_ending_signals(const EndingHandlers& before) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    ::sigaction(kEndingSignals[i], &before[i], nullptr);
  }
}

}  // namespace tandem::cli

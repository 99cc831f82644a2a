// The signals by which a user, a shell or a cluster ends a command, and functions that set and
// restore their handlers.
#pragma once

#include <array>
#include <csignal>

namespace tandem::cli {

inline constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP};

// Handlers of these signals, in the order of kEndingSignals.
using EndingHandlers = std::array<struct sigaction, kEndingSignals.size()>;

inline EndingHandlers get_ending_handlers() {
  EndingHandlers out{};
  for (std::size_t i = 0; i < out.size(); ++i) ::sigaction(kEndingSignals[i], nullptr, &out[i]);
  return out;
}

// Sets `handler` for all ending signals that are not ignored, and returns the handlers from before.
// Ignored signals stay ignored, because nohup relies on it.
inline EndingHandlers handle_ending_signals(void (*handler)(int)) {
  const auto before = get_ending_handlers();
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

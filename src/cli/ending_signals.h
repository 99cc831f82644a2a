// The signals by which a user, a shell or a cluster ends a command.
#pragma once

#include <array>
#include <csignal>

namespace tandem::cli {

inline constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP};

}  // namespace tandem::cli

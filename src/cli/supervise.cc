#include "cli/supervise.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/command.h"

namespace tandem::cli {

namespace {

// Prints why `program` cannot be started. Returns the exit code of a shell in that case.
int report_not_started(const char* program, int error) {
  constexpr int kNotStarted = 127;
  const nlohmann::json line = {
      {"error",
       {{"kind", "runtime"},
        {"where", std::filesystem::path(program).filename().string()},
        {"message", fmt::format("cannot be started: {}", std::strerror(error))}}}};
  std::cout << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  return kNotStarted;
}

// Becomes the program `command`, a list that ends with null.
int run_joined(char** command, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) return ExitCode::kCannot;
  ::execvp(command[0], command);
  return report_not_started(command[0], errno);
}

// Starts the program and waits for its end. `awaited` has SIGCHLD and SIGTERM, which are blocked.
int start_and_wait(char** command, const sigset_t& awaited, const sigset_t& mask) {
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &mask);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, command[0], nullptr, &attributes, command, environ);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) return report_not_started(command[0], error);
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(child, &status, WNOHANG)) == 0) {
    int signal = 0;
    ::sigwait(&awaited, &signal);
    if (signal == SIGTERM) ::kill(child, SIGTERM);
  }
  return ended == child ? to_exit_status(status) : ExitCode::kCannot;
}

// Blocks the signals before anything else, so that none is lost: sigwait takes one that came early.
int run_apart(char** command, pid_t parent, std::span<char*> directories) {
  std::signal(SIGCHLD, SIG_DFL);
  sigset_t awaited;
  sigset_t mask;
  ::sigemptyset(&awaited);
  ::sigaddset(&awaited, SIGCHLD);
  ::sigaddset(&awaited, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &awaited, &mask);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int code =
      ::getppid() == parent ? start_and_wait(command, awaited, mask) : ExitCode::kCannot;
  for (const char* directory : directories) {
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
  }
  return code;
}

}  // namespace

int supervise(std::span<char*> argv) {
  constexpr std::size_t kFirstDirectory = 4;
  const auto parent = argv.size() > kFirstDirectory ? parse_int(argv[2]) : std::nullopt;
  const auto separator =
      std::ranges::find_if(argv, [](const char* word) { return std::string_view(word) == "--"; });
  const auto at = static_cast<std::size_t>(separator - argv.begin());
  if (!parent || at < kFirstDirectory || at + 1 >= argv.size()) {
    std::cerr << fmt::format("tandem: {} is only for tandem itself\n", kSupervise);
    return ExitCode::kWrongUsage;
  }
  char** command = argv.data() + at + 1;
  const auto pid = static_cast<pid_t>(*parent);
  const bool apart = std::string_view(argv[3]) == "apart";
  return apart ? run_apart(command, pid, argv.subspan(kFirstDirectory, at - kFirstDirectory))
               : run_joined(command, pid);
}

}  // namespace tandem::cli

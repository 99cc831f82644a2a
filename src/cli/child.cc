#include "cli/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "cli/ending_signals.h"
#include "cli/host.h"

namespace tandem::cli {

namespace {

constexpr int kSignalled = 128;

std::atomic<int> asked_by = 0;

// Signal handlers from before StopRequests. They end this program at once and remove an unfinished
// file. The first signal restores its handler, so that a second one has this effect.
EndingHandlers handlers_before;

void ask_to_stop(int signal) {
  asked_by = signal;
  for (std::size_t i = 0; i < kEndingSignals.size(); ++i) {
    if (kEndingSignals[i] == signal) ::sigaction(signal, &handlers_before[i], nullptr);
  }
}

// Records requests to stop while an object of it exists. A host handles signals itself.
class StopRequests {
 public:
  StopRequests() {
    asked_by = 0;
    if (host() != nullptr) return;
    handlers_before = get_ending_handlers();
    (void)handle_ending_signals(ask_to_stop);
  }
  ~StopRequests() {
    if (host() == nullptr) restore_ending_signals(handlers_before);
  }
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;

  static int signal() {
    const bool by_host = host() != nullptr && host()->wants_stop();
    return by_host ? SIGINT : asked_by.load();
  }
};

UserError make_start_error() {
  return {"runtime", "mpirun", fmt::format("cannot be started: {}", std::strerror(errno))};
}

// Replaces the new process with the command. mpirun, which runs apart, gets SIGTERM when the parent
// dies: it ends its processes and cleans up. Others get SIGKILL: the launcher that started them
// cleans up.
[[noreturn]] void exec_command(const std::string& command, int output, pid_t parent, bool apart) {
  if (apart) ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, apart ? SIGTERM : SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  for (const int signal : kEndingSignals) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) std::signal(signal, SIG_DFL);
  }
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  ::_exit(kSignalled - 1);
}

// Appends what the child prints to `out`, until the child closes its output. Checks for requests to
// stop every 100 ms, because a signal may arrive between the check and the wait.
void read_all(int from, pid_t child, Ended& out) {
  constexpr int kLookEvery = 100;  // milliseconds
  std::array<char, 4096> chunk{};
  while (true) {
    if (const int signal = StopRequests::signal(); signal != 0 && out.stopped_by == 0) {
      out.stopped_by = signal;
      ::kill(child, SIGTERM);
    }
    pollfd waiting{.fd = from, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, kLookEvery) <= 0) continue;
    const auto n = ::read(from, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    out.text.append(chunk.data(), static_cast<std::size_t>(n));
  }
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
}

}  // namespace

Ended run_child(const std::string& command, bool apart) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw make_start_error();
  const StopRequests requests;
  const auto parent = ::getpid();
  const auto child = ::fork();
  if (child == 0) exec_command(command, ends[1], parent, apart);
  ::close(ends[1]);
  Ended out;
  if (child > 0) read_all(ends[0], child, out);
  ::close(ends[0]);
  if (child < 0) throw make_start_error();
  out.status = wait_for(child);
  return out;
}

}  // namespace tandem::cli

#include "cli/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "base/error.h"
#include "cli/ending_signals.h"
#include "cli/host.h"
#include "cli/supervise.h"

namespace tandem::cli {

namespace {

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

UserError make_start_error(const std::string& program, int error) {
  return {"runtime", program, fmt::format("cannot be started: {}", std::strerror(error))};
}

// Returns the command of the supervisor that starts `program`; see cli/supervise.h.
std::vector<std::string> make_supervisor_command(const ChildProgram& program) {
  CHECK(program.apart || program.directories.empty());
  std::vector<std::string> out = {(get_program_directory() / "tandem").string(),
                                  std::string(kSupervise), fmt::format("{}", ::getpid()),
                                  program.apart ? "apart" : "joined"};
  out.insert(out.end(), program.directories.begin(), program.directories.end());
  out.emplace_back("--");
  out.insert(out.end(), program.command.begin(), program.command.end());
  return out;
}

// Starts `program` with the descriptor `output` as its standard output. Sets `child` and returns 0,
// or returns an error number. Signals that this program handles have their defaults in the child,
// and those that it ignores stay ignored.
int start_child(const ChildProgram& program, int output, pid_t& child) {
  auto words = make_supervisor_command(program);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawnattr_init(&attributes);
  if (program.apart) {
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  }
  const int error = ::posix_spawn(&child, argv[0], &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Appends what the child prints to `out`, until the child closes its output, without the lines that
// `read_line` takes. Checks for requests to stop every 100 ms, because a signal may arrive between
// the check and the wait.
void read_all(int from, pid_t child, const LineReader& read_line, Ended& out) {
  constexpr int kLookEvery = 100;  // milliseconds
  std::array<char, 4096> chunk{};
  std::size_t line = 0;  // begin of the first line in out.text that is not complete
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
    if (!read_line) continue;
    for (auto end = out.text.find('\n', line); end != std::string::npos;
         end = out.text.find('\n', line)) {
      const bool taken = read_line(std::string_view(out.text).substr(line, end - line));
      if (taken) {
        out.text.erase(line, end + 1 - line);
      } else {
        line = end + 1;
      }
    }
  }
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 1;
  }
  return to_exit_status(status);
}

}  // namespace

std::filesystem::path get_program_directory() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

Ended run_child(const ChildProgram& program, const LineReader& read_line) {
  const auto name = std::filesystem::path(program.command.at(0)).filename().string();
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw make_start_error(name, errno);
  const StopRequests requests;
  pid_t child = 0;
  const int error = start_child(program, ends[1], child);
  ::close(ends[1]);
  Ended out;
  if (error == 0) read_all(ends[0], child, read_line, out);
  ::close(ends[0]);
  if (error != 0) throw make_start_error(name, error);
  out.status = wait_for(child);
  return out;
}

}  // namespace tandem::cli

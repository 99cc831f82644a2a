#include "runtime/world.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/mapped_file.h"

namespace tandem::runtime {

namespace {

using Json = nlohmann::json;

std::string to_json_line(const UserError& e) {
  const Json error = {
      {"error", {{"kind", e.kind}, {"where", e.where}, {"message", e.message}, {"hint", e.hint}}}};
  return error.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// The text is prepared before the alarm is set, because a signal handler may do no more than write.
std::array<char, 1024> late_text;
std::size_t late_size = 0;

extern "C" void handle_deadline(int) {
  if (write(STDOUT_FILENO, late_text.data(), late_size) < 0) _exit(3);
  _exit(1);
}

// A line of text that is made without allocating memory, for signal handlers.
class SignalText {
 public:
  void add(std::string_view text) {
    for (const char c : text) {
      if (size_ < text_.size()) text_[size_++] = c;
    }
  }
  // Adds text between the quotation marks of a JSON string. Control characters become question
  // marks.
  void add_quoted(std::string_view text) {
    for (const char c : text) {
      if (c == '"' || c == '\\') add("\\");
      const bool is_control = static_cast<unsigned char>(c) < ' ';
      add(is_control ? "?" : std::string_view(&c, 1));
    }
  }
  [[nodiscard]] bool write_out() const { return write(STDOUT_FILENO, text_.data(), size_) >= 0; }

 private:
  std::array<char, 5000> text_;  // A path has at most 4,096
  std::size_t size_ = 0;
};

extern "C" void handle_lost_memory(int signal, siginfo_t* info, void* /*context*/) {
  const char* path = find_mapped_path(info->si_addr);
  std::signal(signal, SIG_DFL);
  if (path == nullptr) return;  // The signal comes again and ends the process
  SignalText line;
  line.add(R"({"error":{"kind":"file","where":")");
  line.add_quoted(path);
  line.add(R"(","message":"was truncated while it was read","hint":""}})");
  line.add("\n");
  _exit(line.write_out() ? 1 : 3);
}

}  // namespace

World World::from_mpi() {
  World world;
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.size);
  MPI_Comm here = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world.rank, MPI_INFO_NULL, &here);
  MPI_Comm_rank(here, &world.local_rank);
  MPI_Comm_size(here, &world.local_size);
  MPI_Comm_free(&here);
  return world;
}

void print_error(const UserError& error) {
  std::fputs(to_json_line(error).c_str(), stdout);
  std::fflush(stdout);
}

void run_together(const World& world, const std::function<void()>& work) {
  std::optional<UserError> error;
  try {
    work();
  } catch (const UserError& e) {
    error = e;
  } catch (const c10::Error& e) {
    error = UserError("runtime", fmt::format("rank {}", world.rank), e.what_without_backtrace());
  } catch (const std::exception& e) {
    error = UserError("runtime", fmt::format("rank {}", world.rank), e.what());
  }
  int mine = error ? world.rank : world.size;
  int first = 0;
  MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (error && first == world.rank) print_error(*error);
  if (first != world.size) throw Failed{};
}

void run_on_first_rank(const World& world, const std::function<void()>& work) {
  run_together(world, [&] {
    if (world.rank == 0) work();
  });
}

void report_lost_files() {
  struct sigaction action {};
  action.sa_sigaction = handle_lost_memory;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

Deadline::Deadline() { std::signal(SIGALRM, handle_deadline); }
Deadline::~Deadline() { alarm(0); }

void Deadline::renew(std::int64_t seconds, const std::string& what) const {
  alarm(0);
  const auto text = to_json_line(
      UserError("runtime", what,
                fmt::format("did not finish within {} s: a process hangs or is lost", seconds),
                "use a larger --timeout if the processes are only slow"));
  late_size = std::min(text.size(), late_text.size());
  std::copy_n(text.begin(), late_size, late_text.begin());
  alarm(static_cast<unsigned>(seconds));
}

}  // namespace tandem::runtime

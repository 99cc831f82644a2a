#include "cli/launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "base/error.h"

namespace tandem::cli {

namespace {

std::filesystem::path worker_path() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "tandem_worker";
}

// Runs the command and returns what it prints on standard output.
std::string capture(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw UserError("runtime", "mpirun", "cannot be started");
  std::string out;
  std::array<char, 4096> chunk{};
  while (const auto n = std::fread(chunk.data(), 1, chunk.size(), pipe))
    out.append(chunk.data(), n);
  if (pclose(pipe) != 0)
    throw UserError("runtime", "mpirun", "the run failed", "its messages are above");
  return out;
}

}  // namespace

void check_worker_is_built(const std::string& command) {
  if (std::filesystem::exists(worker_path())) return;
  throw UserError("runtime", command, "the runtime is not built",
                  fmt::format("it needs libtorch-dev, libopenmpi-dev and openmpi-bin; `./tandem "
                              "{}` installs them",
                              command));
}

std::int64_t default_processes() {
  return std::max<std::int64_t>(1, std::thread::hardware_concurrency());
}

// More processes than cores works, slowly; a cluster's plan would only exhaust this computer.
void check_starts_here(const std::string& what, std::int64_t processes, const std::string& hint) {
  const auto cores = default_processes();
  if (processes <= 8 * cores) return;
  throw UserError(
      "runtime", what,
      fmt::format("needs {} processes and this computer has {} cores", processes, cores), hint);
}

std::string run_worker(std::int64_t processes, const std::string& arguments) {
  const std::string as_root = geteuid() == 0 ? "--allow-run-as-root" : "";
  return capture(fmt::format("mpirun {} --oversubscribe --bind-to none -np {} {} {}", as_root,
                             processes, quoted(worker_path().string()), arguments));
}

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string progress_flag() {
  return isatty(STDERR_FILENO) != 0 ? "--progress yes" : "--progress no";
}

}  // namespace tandem::cli

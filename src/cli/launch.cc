#include "cli/launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "cli/child.h"
#include "cli/progress.h"

namespace tandem::cli {

namespace {

std::filesystem::path get_worker_path() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "tandem_worker";
}

// Returns the error that a process has printed as one line of `text`; nullopt if there is none.
std::optional<UserError> find_error(const std::string& text) {
  for (const auto line : split(text, '\n')) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("error") || !json["error"].is_object()) continue;
    const auto part = [&](const char* key) { return json["error"].value(key, std::string()); };
    return UserError(part("kind"), part("where"), part("message"), part("hint"));
  }
  return std::nullopt;
}

[[noreturn]] void fail(const Ended& output, const std::string& if_killed) {
  if (auto error = find_error(output.text)) throw UserError(std::move(*error));
  if (output.stopped_by != 0) {
    throw UserError("runtime", "mpirun",
                    fmt::format("was stopped by signal {} ({}) before the run finished",
                                output.stopped_by, strsignal(output.stopped_by)),
                    if_killed);
  }
  constexpr int kSignalled = 128;
  if (output.status <= kSignalled) {
    throw UserError("runtime", "mpirun", "the run failed", "see its messages above");
  }
  const int signal = output.status - kSignalled;
  throw UserError("runtime", "mpirun",
                  fmt::format("a process was killed by signal {} ({}), which ended the run", signal,
                              strsignal(signal)),
                  if_killed);
}

}  // namespace

void check_worker_is_built(const std::string& command) {
  if (std::filesystem::exists(get_worker_path())) return;
  throw UserError("runtime", command, "the runtime is not built",
                  fmt::format("install libtorch-dev, libopenmpi-dev and openmpi-bin, or run "
                              "`./tandem {}`, which installs them",
                              command));
}

// Reads the environment variables of OpenMPI's mpirun, of PMI (other launchers and srun), and of
// PMIx under srun.
std::optional<Launched> detect_launcher() {
  constexpr std::array<std::array<const char*, 2>, 3> kNames = {{
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMI_RANK", "PMI_SIZE"},
      {"PMIX_RANK", "SLURM_NTASKS"},
  }};
  for (const auto& [rank_name, size_name] : kNames) {
    const char* rank_text = std::getenv(rank_name);
    const char* size_text = std::getenv(size_name);
    if (rank_text == nullptr || size_text == nullptr) continue;
    const auto rank = parse_int(rank_text);
    const auto size = parse_int(size_text);
    if (rank && size && *rank >= 0 && *rank < *size) return Launched{*rank, *size};
  }
  return std::nullopt;
}

std::int64_t count_default_processes() {
  if (const auto world = detect_launcher()) return world->size;
  return std::max<std::int64_t>(1, std::thread::hardware_concurrency());
}

std::int64_t count_visible_devices(const std::string& kind) {
  const auto output = run_child(
      fmt::format("exec {} --visible {}", quote_for_shell(get_worker_path().string()), kind),
      false);
  if (output.status != 0) fail(output, "");
  return nlohmann::json::parse(output.text).at("devices").get<std::int64_t>();
}

// Somewhat more processes than cores run slowly, which is allowed. The processes of a cluster's
// plan would only exhaust this computer.
void check_starts_here(const std::string& what, std::int64_t processes, const std::string& hint) {
  if (const auto world = detect_launcher()) {
    if (processes == world->size) return;
    throw UserError("runtime", what,
                    fmt::format("needs {} processes, but {} were started", processes, world->size),
                    fmt::format("start it by mpirun -np {}", processes));
  }
  const auto cores = count_default_processes();
  if (processes <= 8 * cores) return;
  throw UserError(
      "runtime", what,
      fmt::format("needs {} processes, but this computer has {} cores", processes, cores), hint);
}

std::string run_worker(std::int64_t processes, const std::string& arguments,
                       const RunDirectory& folder, const std::string& if_killed) {
  const std::string as_root = geteuid() == 0 ? "--allow-run-as-root" : "";
  // -q suppresses mpirun's own message: this program reports which process failed.
  const auto mpirun = fmt::format("mpirun -q {} --oversubscribe --bind-to none {} -np {} ", as_root,
                                  folder.make_mpirun_flags(), processes);
  const auto worker = fmt::format("{} {}", quote_for_shell(get_worker_path().string()), arguments);
  const bool apart = !detect_launcher();
  auto output =
      run_child(apart ? folder.wrap_with_cleanup(mpirun + worker) : "exec " + worker, apart);
  if (output.status != 0 || output.stopped_by != 0) fail(output, if_killed);
  return std::move(output.text);
}

int join_worker(const std::string& arguments) {
  const auto output = run_child(
      fmt::format("exec {} {}", quote_for_shell(get_worker_path().string()), arguments), false);
  if (auto error = find_error(output.text)) throw UserError(std::move(*error));
  return output.status;
}

std::string quote_for_shell(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string make_progress_flags() {
  if (is_quiet()) return "--progress no --notes no";
  return isatty(STDERR_FILENO) != 0 ? "--progress yes" : "--progress no";
}

}  // namespace tandem::cli

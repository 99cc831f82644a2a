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
#include "cli/host.h"
#include "cli/progress.h"

namespace tandem::cli {

namespace {

std::filesystem::path get_worker_path() { return get_program_directory() / "tandem_worker"; }

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

// Throws UserError for a path that JSON cannot hold.
void check_paths_are_text(const runtime::WorkerJob& job) {
  for (const auto* path : {&job.plan, &job.data, &job.checkpoints}) {
    if (!is_utf8(*path))
      throw UserError("file", *path, "has a name that is not UTF-8", "rename it");
  }
}

std::vector<std::string> make_mpirun_command(std::int64_t processes,
                                             const RunDirectory& directory) {
  // -q suppresses mpirun's own message: this program reports which process failed.
  std::vector<std::string> out = {"mpirun", "-q", "--oversubscribe", "--bind-to", "none"};
  if (geteuid() == 0) out.emplace_back("--allow-run-as-root");
  const auto flags = directory.make_mpirun_flags();
  out.insert(out.end(), flags.begin(), flags.end());
  out.insert(out.end(), {"-np", fmt::format("{}", processes)});
  return out;
}

// Handles a line that the worker prints before its report: {"note": "..."} or
// {"loss": 0.5, "step": 3}. Returns false for other lines.
bool read_streamed_line(std::string_view line, const StepListener& on_step) {
  if (!line.starts_with("{\"")) return false;  // lines of the report do not begin so
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return false;
  const auto text = json.find("note");
  if (text != json.end() && text->is_string()) {
    note(text->get<std::string>());
    return true;
  }
  const auto step = json.find("step");
  const auto loss = json.find("loss");
  if (step == json.end() || loss == json.end()) return false;
  if (!step->is_number_integer() || !loss->is_number()) return false;
  if (on_step) on_step(step->get<std::int64_t>(), loss->get<double>());
  return true;
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
  const auto output = run_child({.command = {get_worker_path().string(), "--visible", kind}});
  if (output.status != 0) fail(output, "");
  return nlohmann::json::parse(output.text).at("devices").get<std::int64_t>();
}

// Throws UserError if this computer cannot run so many processes. Somewhat more processes than
// cores run slowly, which is allowed. The processes of a cluster's plan would only exhaust this
// computer.
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

runtime::WorkerJob make_worker_job(bool streams) {
  const bool is_overwritten = streams && isatty(STDOUT_FILENO) != 0;
  runtime::WorkerJob out;
  out.stream = streams;
  out.notes = !is_quiet();
  out.progress = !is_quiet() && !is_overwritten && isatty(STDERR_FILENO) != 0;
  return out;
}

std::string run_worker(std::int64_t processes, const runtime::WorkerJob& job,
                       const RunDirectory& directory, const std::string& if_killed,
                       const StepListener& on_step) {
  check_paths_are_text(job);
  const auto job_path = directory.add_file("job.json", to_json(job));
  ChildProgram program;
  program.apart = !detect_launcher();
  if (program.apart) {
    program.command = make_mpirun_command(processes, directory);
    program.directories = directory.list_paths();
  }
  program.command.push_back(get_worker_path().string());
  program.command.push_back(job_path);
  LineReader read_line;
  if (job.stream) {
    read_line = [&on_step](std::string_view line) { return read_streamed_line(line, on_step); };
  }
  auto output = run_child(program, read_line);
  if (output.status != 0 || output.stopped_by != 0) fail(output, if_killed);
  return std::move(output.text);
}

int join_worker() {
  const auto output = run_child({.command = {get_worker_path().string(), "-"}});
  if (auto error = find_error(output.text)) throw UserError(std::move(*error));
  return output.status;
}

}  // namespace tandem::cli

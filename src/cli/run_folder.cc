#include "cli/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "cli/new_file.h"

namespace tandem::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kShared = "/dev/shm";
constexpr const char* kPrefix = "tandem-run-";
// A new directory has no lock for a moment, so young ones are not removed.
constexpr auto kYoung = std::chrono::seconds(60);

// Locks `folder` and returns the descriptor of the lock, or -1 if another process holds it. The
// lock ends with its process, however that ends, and works across containers.
int locked(const fs::path& folder) {
  const int descriptor =
      ::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor);
    return -1;
  }
  return descriptor;
}

bool is_old(const fs::path& folder) {
  std::error_code failed;
  const auto changed = fs::last_write_time(folder, failed);
  return !failed && fs::file_time_type::clock::now() - changed > kYoung;
}

// Removes old directories of runs in `place` that no process holds. Directories of other users
// stay, as they cannot be opened.
void remove_left_ones(const fs::path& place) {
  std::error_code failed;
  for (fs::directory_iterator at(place, failed), end; !failed && at != end; at.increment(failed)) {
    const auto& path = at->path();
    if (!path.filename().string().starts_with(kPrefix) || !is_old(path)) continue;
    const int lock = locked(path);
    if (lock < 0) continue;
    std::error_code ignored;
    fs::remove_all(path, ignored);
    ::close(lock);
  }
}

}  // namespace

RunFolder::RunFolder() {
  std::error_code ignored;
  std::vector<fs::path> places = {fs::temp_directory_path()};
  if (fs::is_directory(kShared, ignored)) places.emplace_back(kShared);
  for (const auto& place : places) {
    remove_left_ones(place);
    auto path = (place / fmt::format("{}{}-XXXXXX", kPrefix, ::getpid())).string();
    if (::mkdtemp(path.data()) == nullptr) {
      if (place == kShared) continue;  // mpirun reports an error if it needs shared memory
      throw UserError("file", place.string(),
                      fmt::format("a directory cannot be created here: {}", std::strerror(errno)),
                      "set TMPDIR to a directory that is writable");
    }
    folders_.push_back({.path = path, .lock = locked(path)});
  }
}

RunFolder::~RunFolder() {
  for (const auto& folder : folders_) {
    std::error_code ignored;
    fs::remove_all(folder.path, ignored);
    if (folder.lock >= 0) ::close(folder.lock);
  }
}

std::string RunFolder::with_file(const std::string& name, const std::string& text) const {
  auto path = folders_[0].path + "/" + name;
  write_file(path, text);
  return path;
}

std::string RunFolder::flags() const {
  auto out = fmt::format("--mca orte_tmpdir_base {}", quoted(folders_[0].path));
  if (folders_.size() > 1) {
    for (const char* of : {"btl_vader", "osc_sm"}) {
      out += fmt::format(" --mca {}_backing_directory {}", of, quoted(folders_[1].path));
    }
  }
  return out;
}

// A trap ends the shell's first `wait` while the command still runs, so the script waits again.
std::string RunFolder::and_removed_after(const std::string& command) const {
  std::string paths;
  for (const auto& folder : folders_) paths += " " + quoted(folder.path);
  return fmt::format(
      "trap 'kill -TERM $p 2>/dev/null || asked=1' TERM; {} & p=$!; [ $asked ] && kill -TERM $p; "
      "wait $p; s=$?; while kill -0 $p 2>/dev/null; do wait $p; s=$?; done; rm -rf{}; exit $s",
      command, paths);
}

}  // namespace tandem::cli

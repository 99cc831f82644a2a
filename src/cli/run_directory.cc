#include "cli/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace tandem::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kShared = "/dev/shm";
constexpr const char* kPrefix = "tandem-run-";
// A new directory has no lock for a moment, so young ones are not removed.
constexpr auto kYoung = std::chrono::seconds(60);

// Locks `directory` and returns the descriptor of the lock, or -1 if another process holds it. The
// lock ends with its process, however that ends, and works across containers.
int lock_directory(const fs::path& directory) {
  const int descriptor =
      ::open((directory / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor);
    return -1;
  }
  return descriptor;
}

bool is_old(const fs::path& directory) {
  std::error_code failed;
  const auto changed = fs::last_write_time(directory, failed);
  return !failed && fs::file_time_type::clock::now() - changed > kYoung;
}

// Removes old directories of runs in `place` that no process holds. Directories of other users
// stay, as they cannot be opened.
void remove_stale_directories(const fs::path& place) {
  std::error_code failed;
  for (fs::directory_iterator at(place, failed), end; !failed && at != end; at.increment(failed)) {
    const auto& path = at->path();
    if (!path.filename().string().starts_with(kPrefix) || !is_old(path)) continue;
    const int lock = lock_directory(path);
    if (lock < 0) continue;
    std::error_code ignored;
    fs::remove_all(path, ignored);
    ::close(lock);
  }
}

}  // namespace

RunDirectory::RunDirectory() {
  std::error_code ignored;
  std::vector<fs::path> places = {fs::temp_directory_path()};
  if (fs::is_directory(kShared, ignored)) places.emplace_back(kShared);
  for (const auto& place : places) {
    remove_stale_directories(place);
    auto path = (place / fmt::format("{}{}-XXXXXX", kPrefix, ::getpid())).string();
    if (::mkdtemp(path.data()) == nullptr) {
      if (place == kShared) continue;  // mpirun reports an error if it needs shared memory
      throw UserError("file", place.string(),
                      fmt::format("a directory cannot be created here: {}", std::strerror(errno)),
                      "set TMPDIR to a directory that is writable");
    }
    directories_.push_back({.path = path, .lock = lock_directory(path)});
  }
}

RunDirectory::~RunDirectory() {
  for (const auto& directory : directories_) {
    std::error_code ignored;
    fs::remove_all(directory.path, ignored);
    if (directory.lock >= 0) ::close(directory.lock);
  }
}

// A NewFile would be of no use here, and a command that runs the worker may have one.
std::string RunDirectory::add_file(const std::string& name, const std::string& text) const {
  auto path = directories_[0].path + "/" + name;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw UserError("file", path, "cannot be written", "free space on this disk");
  return path;
}

std::vector<std::string> RunDirectory::make_mpirun_flags() const {
  std::vector<std::string> out = {"--mca", "orte_tmpdir_base", directories_[0].path};
  if (directories_.size() > 1) {
    for (const char* part : {"btl_vader", "osc_sm"}) {
      out.insert(out.end(),
                 {"--mca", fmt::format("{}_backing_directory", part), directories_[1].path});
    }
  }
  return out;
}

std::vector<std::string> RunDirectory::list_paths() const {
  std::vector<std::string> out;
  out.reserve(directories_.size());
  for (const auto& directory : directories_) out.push_back(directory.path);
  return out;
}

}  // namespace tandem::cli

#include "cli/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "cli/ending_signals.h"
#include "cli/host.h"

namespace tandem::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWrittenAtOnce = std::size_t{1} << 18;

// Path of the temporary file that a signal handler removes. A plain pointer, as a handler may call
// few functions.
std::atomic<const char*> unfinished = nullptr;
EndingHandlers handlers_without_file;

void remove_and_die(int signal) {
  if (const char* path = unfinished.load(); path != nullptr) ::unlink(path);
  std::signal(signal, SIG_DFL);
  ::raise(signal);  // delivered when this function has returned
}

void remove_on_signals(const std::string& path) {
  CHECK(unfinished.load() == nullptr, path);
  unfinished = path.c_str();
  if (host() != nullptr) return;  // a host stops commands in its own way
  handlers_without_file = handle_ending_signals(remove_and_die);
}

void stop_removing_on_signals() {
  if (host() == nullptr) restore_ending_signals(handlers_without_file);
  unfinished = nullptr;
}

// Syncs the file to disk. Returns false if that fails; file systems without fsync return EINVAL,
// which counts as success.
bool sync_file(int descriptor) { return ::fsync(descriptor) == 0 || errno == EINVAL; }

// Syncs the directory of `place`, so that a new name in it survives a crash. Does nothing if the
// directory cannot be opened.
void sync_directory(const fs::path& place) {
  const auto directory = place.has_parent_path() ? place.parent_path() : fs::path(".");
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  (void)sync_file(descriptor);
  ::close(descriptor);
}

}  // namespace

NewFile::NewFile(const std::string& path) : path_(path) {
  const auto directory = fs::path(path).parent_path();
  std::error_code ignored;
  if (!directory.empty() && !fs::is_directory(directory, ignored)) {
    throw UserError("file", path, fmt::format("directory '{}' does not exist", directory.string()),
                    "create it first, or choose another path");
  }
  if (fs::is_directory(path, ignored)) throw UserError("file", path, "is a directory");
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail();
    return;
  }
  place_ = fs::weakly_canonical(path, ignored).string();
  if (place_.empty()) place_ = path;
  const bool replaces = fs::exists(place_, ignored);
  if (replaces && ::access(place_.c_str(), W_OK) != 0) fail();
  temporary_ = fmt::format("{}.{}.new", place_, ::getpid());
  remove_on_signals(temporary_);
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    stop_removing_on_signals();
    fail();
  }
  struct stat before {};
  if (replaces && ::stat(place_.c_str(), &before) == 0) (void)::fchmod(descriptor_, before.st_mode);
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (temporary_.empty()) return;
  ::unlink(temporary_.c_str());
  stop_removing_on_signals();
}

void NewFile::fail() const {
  throw UserError("file", path_, fmt::format("cannot be written: {}", std::strerror(errno)));
}

void NewFile::write(std::string_view text) {
  waiting_ += text;
  if (waiting_.size() >= kWrittenAtOnce) flush();
}

void NewFile::flush() {
  std::string_view rest = waiting_;
  while (!rest.empty()) {
    const auto n = ::write(descriptor_, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail();
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  waiting_.clear();
}

void NewFile::finish() {
  flush();
  if (!temporary_.empty() && !sync_file(descriptor_)) fail();
  if (::close(std::exchange(descriptor_, -1)) != 0) fail();
  if (temporary_.empty()) return;
  if (std::rename(temporary_.c_str(), place_.c_str()) != 0) fail();
  stop_removing_on_signals();
  temporary_.clear();
  sync_directory(place_);
}

void expect_writable(const std::string& path) {
  std::error_code ignored;
  const auto kind = fs::status(path, ignored).type();
  const bool is_special = fs::exists(fs::file_status(kind)) && kind != fs::file_type::regular &&
                          kind != fs::file_type::directory;
  if (!path.empty() && !is_special) const NewFile probe(path);
}

void write_file(const std::string& path, std::string_view text) {
  NewFile file(path);
  file.write(text);
  file.finish();
}

}  // namespace tandem::cli

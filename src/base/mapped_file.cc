#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>

#include "base/error.h"

namespace tandem {

namespace {

constexpr std::size_t kKnown = 1000;

std::array<std::atomic<const MappedFile*>, kKnown> known;

void replace_known(const MappedFile* old, const MappedFile* by) {
  for (auto& entry : known) {
    const MappedFile* expected = old;
    if (entry.compare_exchange_strong(expected, by)) return;
  }
}

}  // namespace

const char* find_mapped_path(const void* address) {
  const std::less<const char*> before;
  const auto* at = static_cast<const char*>(address);
  for (const auto& entry : known) {
    const auto* file = entry.load();
    if (file == nullptr) continue;
    const auto bytes = file->bytes();
    if (!before(at, bytes.data()) && before(at, bytes.data() + bytes.size())) {
      return file->path().c_str();
    }
  }
  return nullptr;
}

MappedFile::MappedFile(const std::string& path)
    : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status {};
  const bool is_file =
      descriptor_ >= 0 && fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (is_file) {
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ > 0) data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
  }
  if (!is_file || data_ == MAP_FAILED) {
    if (descriptor_ >= 0) close(descriptor_);
    throw UserError("file", path, "cannot be read");
  }
  replace_known(nullptr, this);
}

MappedFile::~MappedFile() {
  replace_known(this, nullptr);
  if (data_ != nullptr) munmap(data_, size_);
  close(descriptor_);
}

void MappedFile::check_not_truncated() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0 || static_cast<std::size_t>(status.st_size) >= size_) return;
  throw UserError("file", path_,
                  "was cut off while it was read: " + std::to_string(status.st_size) + " of " +
                      std::to_string(size_) + " bytes are left");
}

}  // namespace tandem

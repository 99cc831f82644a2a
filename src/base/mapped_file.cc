#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace tandem {

MappedFile::MappedFile(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (descriptor < 0 || fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    if (descriptor >= 0) close(descriptor);
    throw UserError("file", path, "cannot be read");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ > 0) data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  close(descriptor);
  if (data_ == MAP_FAILED) throw UserError("file", path, "cannot be read");
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace tandem

// A file mapped into memory for the lifetime of the object. If the file is truncated meanwhile, a
// reader gets zeros up to the end of a page, then SIGBUS (see find_mapped_path).
#pragma once

#include <string>
#include <string_view>

namespace tandem {

class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  // throws UserError
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Throws UserError if the file was truncated after it was opened.
  void check_not_truncated() const;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string_view bytes() const {
    return {static_cast<const char*>(data_), data_ == nullptr ? 0 : size_};
  }

 private:
  std::string path_;
  int descriptor_ = -1;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// Returns the path of the file that is mapped at an address, or null. Signal handlers may call it:
// it takes no lock and allocates no memory. It knows the first 1,000 files.
const char* find_mapped_path(const void* address);

}  // namespace tandem

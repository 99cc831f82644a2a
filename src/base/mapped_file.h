// A file's bytes, for as long as it lives. What is cut off from the file meanwhile is gone: who
// reads it has zeros up to the end of a page, then SIGBUS (mapped_path_at).
#pragma once

#include <string>
#include <string_view>

namespace tandem {

class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  // UserError
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Throws UserError where the file has been cut off since it was opened.
  void check_whole() const;

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

// The path of the file that is mapped at an address, null where there is none. For a signal's
// handler: it takes no lock and no memory. Knows the first 1,000 files.
const char* mapped_path_at(const void* address);

}  // namespace tandem

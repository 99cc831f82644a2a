// A file's bytes, for as long as it lives.
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

  [[nodiscard]] std::string_view bytes() const {
    return {static_cast<const char*>(data_), data_ == nullptr ? 0 : size_};
  }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tandem

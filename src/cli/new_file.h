// An output file that appears complete or not at all. It is written under a temporary name in the
// same directory and renamed at the end, so a command that is stopped or fails leaves an older file
// unchanged. The constructor fails if the file cannot be written, before the work for its contents
// is done. Special files such as /dev/stdout are written directly.
#pragma once

#include <string>
#include <string_view>

namespace tandem::cli {

// At most one exists at a time. The temporary file is removed unless finish() was called, also on
// Ctrl-C. All functions throw UserError("file", path).
class NewFile {
 public:
  explicit NewFile(const std::string& path);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  void write(std::string_view text);
  // Moves the file to its path. It then survives a crash of the machine.
  void finish();

 private:
  [[noreturn]] void fail() const;
  void flush();

  std::string path_;       // as the user gave it
  std::string place_;      // final path, with links resolved
  std::string temporary_;  // empty: written directly
  std::string waiting_;    // text that is not written yet
  int descriptor_ = -1;
};

// Throws UserError if a file at `path` cannot be written; to be called before the work for its
// contents. Does nothing for special files: opening and closing a pipe would end it.
void expect_writable(const std::string& path);
// Writes `text` with a NewFile.
void write_file(const std::string& path, std::string_view text);

}  // namespace tandem::cli

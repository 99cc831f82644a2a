// A file that appears whole or not at all: it is written under another name beside its place, which
// it takes at the end, so that a command that is stopped or fails midway leaves what was there.
// Whether it can be written is known before the work is done whose result it takes. What is no
// plain file, as /dev/stdout, is written as it stands.
#pragma once

#include <string>
#include <string_view>

namespace tandem::cli {

// At most one at a time. Goes without a trace unless it was finished, on Ctrl-C, too. All throw
// UserError("file", path).
class NewFile {
 public:
  explicit NewFile(const std::string& path);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  void write(std::string_view text);
  // From now on it is there, also after a failure of the machine.
  void finish();

 private:
  [[noreturn]] void fail() const;
  void flush();

  std::string path_;       // as the user calls it
  std::string place_;      // where it is to be, links followed
  std::string temporary_;  // empty where it is written as it stands
  std::string waiting_;
  int descriptor_ = -1;
};

// Before work whose result goes there. What is no plain file is left alone: a pipe would end.
void expect_writable(const std::string& path);
void write_file(const std::string& path, std::string_view text);

}  // namespace tandem::cli

// Where the processes of a run have what is gone with the run: the plan they are given, mpirun's
// session, the files behind shared memory. Removed whatever ended the processes.
#pragma once

#include <string>
#include <vector>

namespace tandem::cli {

class RunFolder {
 public:
  // Removes, too, what runs left that were killed together with this program. Throws UserError.
  RunFolder();
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // Writes a file and returns its path.
  [[nodiscard]] std::string with_file(const std::string& name, const std::string& text) const;
  // For mpirun's command line.
  [[nodiscard]] std::string flags() const;
  // A script of the shell that runs a command, hands SIGTERM on to it, and removes the folders
  // after it: this program may have been killed meanwhile.
  [[nodiscard]] std::string and_removed_after(const std::string& command) const;

 private:
  struct Locked {
    std::string path;
    int lock = -1;
  };
  std::vector<Locked> folders_;  // on the disk; in shared memory, where there is some
};

}  // namespace tandem::cli

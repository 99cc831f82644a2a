// Temporary directories of a run: for its plan, mpirun's session, and the files behind shared
// memory. They are removed at the end, however the processes ended.
#pragma once

#include <string>
#include <vector>

namespace tandem::cli {

class RunFolder {
 public:
  // Creates the directories. Also removes the directories of earlier runs that were killed together
  // with their program. Throws UserError.
  RunFolder();
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // Writes a file and returns its path.
  [[nodiscard]] std::string with_file(const std::string& name, const std::string& text) const;
  // Returns flags of mpirun that make it use these directories.
  [[nodiscard]] std::string flags() const;
  // Returns a shell script that runs `command`, forwards SIGTERM to it, and removes the directories
  // when it has ended. The script does this because this program may have been killed meanwhile.
  [[nodiscard]] std::string and_removed_after(const std::string& command) const;

 private:
  struct Locked {
    std::string path;
    int lock = -1;
  };
  std::vector<Locked> folders_;  // one on disk, then one in shared memory if available
};

}  // namespace tandem::cli

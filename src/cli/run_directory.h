// Temporary directories of a run: for its job and plan, mpirun's session, and the files behind
// shared memory. They are removed at the end, however the processes ended.
#pragma once

#include <string>
#include <vector>

namespace tandem::cli {

class RunDirectory {
 public:
  // Creates the directories. Also removes the directories of earlier runs that were killed together
  // with their program. Throws UserError.
  RunDirectory();
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  // Writes a file and returns its path. Throws UserError.
  [[nodiscard]] std::string add_file(const std::string& name, const std::string& text) const;
  // Returns flags of mpirun that make it use these directories.
  [[nodiscard]] std::vector<std::string> make_mpirun_flags() const;
  // Returns the paths of the directories.
  [[nodiscard]] std::vector<std::string> list_paths() const;

 private:
  struct Locked {
    std::string path;
    int lock = -1;
  };
  std::vector<Locked> directories_;  // one on disk, then one in shared memory if available
};

}  // namespace tandem::cli

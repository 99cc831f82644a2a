// Line-by-line parser of machine files; the functions of machine/machine.h use it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "machine/machine.h"

namespace tandem::machine {

struct MachineFile {
  Machine machine;
  std::string source;  // "machines/summit.machine"
  std::string usage;
  std::string doc;
  std::vector<std::string> sources;  // comment lines of the form "[KEY] ..."
  struct SoftwareProfile {
    std::string name, doc;
  };
  std::vector<SoftwareProfile> software;  // its software profiles
  std::string open_level;  // level whose count is '?'; empty if none or a size was given
};

// Parses a machine file without checking that a size is given exactly if a count is open. With size
// 0 an open count is read as 1, and networks and mappings, which depend on it, are omitted.
MachineFile read_machine_file(std::string_view text, const std::string& source, std::int64_t size,
                              const std::string& software = "");

// Loads the file that load_machine(name) would parse; the name's size is optional.
MachineFile load_machine_file(const std::string& name);

}  // namespace tandem::machine

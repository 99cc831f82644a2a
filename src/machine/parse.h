// The text of a machine file, line by line: what machine/machine.h's functions are made of.
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
  std::vector<std::string> sources;  // comment lines that start like "[KEY] ..."
  struct Software {
    std::string name, doc;
  };
  std::vector<Software> software;  // the sections it has
  std::string open_level;          // whose count is '?'; empty where none is or a size was given
};

// Without the check that a size was given where, and only where, the text leaves a count open.
// With size 0 an open count is read as 1, and what depends on it is left out: networks, mappings.
MachineFile read_machine_file(std::string_view text, const std::string& source, std::int64_t size,
                              const std::string& software = "");

// What load_machine(name) reads; a name without its size will do.
MachineFile load_machine_file(const std::string& name);

}  // namespace tandem::machine

// The text of a machine file, line by line: what machine/machine.h's functions are made of.
#pragma once

#include <string>
#include <string_view>

#include "machine/machine.h"

namespace tandem::machine {

struct MachineFile {
  Machine machine;
  std::string usage;
  std::string doc;
};

// Without the check that a size was given where, and only where, the text leaves a count open.
MachineFile read_machine_file(std::string_view text, const std::string& source, std::int64_t size);

// Input may be any bytes, and messages go into JSON: ASCII only, and not for ever.
std::string printable(std::string_view text);

}  // namespace tandem::machine

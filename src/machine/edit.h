// A machine file with other values in some of its fields, as sweeps want it. The text is changed,
// then read as ever: units, checks and whatever follows from a number are those of the file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "machine/machine.h"

namespace tandem::machine {

// "device.FIELD" of all devices, "device.NAME.FIELD" of one, "level.NAME.FIELD"; `peak` with its
// element type: "device.peak.bf16". The value is written as in the file; the blank before its unit
// may be left out: "1.5TB/s".
struct FieldValue {
  std::string path;
  std::string value;
};

// Does it begin like a field's path?
bool is_field_path(std::string_view key);

// The value stands in place of all lines with that field, or on a line of its own. `shared`, `half`
// and `by_device` stay behind a bandwidth. Software that has another value for all devices or for
// the level no longer has it: what is asked for holds. Throws UserError where there is no such
// device or level.
std::string with_field(std::string_view text, const FieldValue& field);

// load_machine of the changed text. Messages say what was changed.
Machine load_machine(const std::string& name, const std::vector<FieldValue>& fields);

}  // namespace tandem::machine

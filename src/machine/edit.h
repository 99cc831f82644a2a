// Edits of a machine file that replace the values of some fields, as sweeps need them. The edited
// text is parsed like any machine file, so units, checks and derived values stay consistent.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "machine/machine.h"

namespace tandem::machine {

// A field's path and its new value. The path is "device.FIELD" (all devices), "device.NAME.FIELD"
// (one device) or "level.NAME.FIELD"; `peak` is followed by its element type: "device.peak.bf16".
// The value is written as in the file; the space before its unit is optional: "1.5TB/s".
struct FieldValue {
  std::string path;
  std::string value;
};

// Returns whether `key` starts like a field's path.
bool is_field_path(std::string_view key);

// Returns `text` with the field set to the new value. The new value replaces all lines with that
// field, or gets a line of its own. A bandwidth keeps its `shared`, `half` and `by_device`. Lines
// of software profiles that override the field for all devices or for the level are removed, so the
// new value takes effect. Throws UserError if there is no such device or level.
std::string with_field(std::string_view text, const FieldValue& field);

// Loads the machine like load_machine(name) after editing its text. Messages name the edits.
Machine load_machine(const std::string& name, const std::vector<FieldValue>& fields);

}  // namespace tandem::machine

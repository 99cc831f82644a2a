// Machine numbers that a fit may change, and their ranges.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "machine/machine.h"

namespace tandem::validate {

struct Parameter {
  std::string_view name;  // name in a machine file: "launch", "level gpu utilization"
  double low;             // above 0, because fits are multiplicative; in base units
  double high;
  std::string_view unit = {};  // unit in the text; empty for a number without one
  double in_unit = 1;          // base units per unit of the text
};

std::span<const Parameter> all_parameters();
// Returns the parameters of these names, separated by commas; all of them for empty text. Throws
// UserError for an unknown name.
std::vector<const Parameter*> parse_parameters(const std::string& names);

// Returns the parameter's value, or nullopt if the machine has no such number: a single level, or a
// curve.
std::optional<double> get_value(const Parameter& parameter, const machine::Machine& machine);
void set_value(const Parameter& parameter, double value, machine::Machine& machine);

// Returns the line of a machine file: "launch 3.2 us".
std::string format_line(const Parameter& parameter, double value);

}  // namespace tandem::validate

// The numbers of a machine that a fit may change, and within which range.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "machine/machine.h"

namespace tandem::validate {

struct Parameter {
  std::string_view name;  // as a machine file writes it: "launch", "level gpu utilization"
  double low;             // above 0, for fits go by factors; in base units
  double high;
  std::string_view unit = {};  // of the text; none for a number without one
  double in_unit = 1;          // base units in one of the text's
};

std::span<const Parameter> all_parameters();
// Those of these names, separated by commas; empty text is for all. UserError for one unknown.
std::vector<const Parameter*> parameters_named(const std::string& names);

// Nothing where the machine has no such number: one level, a curve.
std::optional<double> value_of(const Parameter& parameter, const machine::Machine& machine);
void set_value(const Parameter& parameter, double value, machine::Machine& machine);

// "launch 3.2 us"
std::string line_of(const Parameter& parameter, double value);

}  // namespace tandem::validate

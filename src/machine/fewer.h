// A machine of which not all devices are used, or not all kinds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "machine/machine.h"

namespace tandem::machine {

// The machine with the first `units` of each level, outermost first, and a name that load_machine
// reads: "dgx_h100:6,use=5/8". Where units have different devices the weakest are left out. Nothing
// where a level is cut whose units are not joined by one switch.
std::optional<Machine> with_units(const Machine& machine, const std::vector<std::int64_t>& units);

// One machine for each kind of device, all of whose devices are of that kind.
std::vector<Machine> equal_machines(const Machine& machine);

// Returns what makes its devices stronger than others: the highest rate of any type, then memory,
// then bandwidth.
std::tuple<double, Bytes, double> strength(const DeviceGroup& group);

// with_units("dgx_h100:6,software=megatron", {5, 8}) = "dgx_h100:6,use=5/8,software=megatron"
std::string with_units(const std::string& name, const std::vector<std::int64_t>& units);

// "5/8" = {5, 8}. Throws UserError, naming the machine, where that is not the machine's levels with
// at most as many units as they have.
std::vector<std::int64_t> parse_units(std::string_view text, const Machine& machine);

}  // namespace tandem::machine

// Submachines: machines that use only some of the devices, or only one kind of device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "machine/machine.h"

namespace tandem::machine {

// Returns the machine with the first `units` of each level, outermost first. Its name can be loaded
// again: "dgx_h100:6,use=5/8". If the devices differ, the weakest units are dropped. Returns
// nullopt if a level is cut whose units are not joined by one switch.
std::optional<Machine> make_submachine(const Machine& machine,
                                       const std::vector<std::int64_t>& units);

// Returns one machine for each kind of device; all devices of a result are of that kind.
std::vector<Machine> split_by_device_kind(const Machine& machine);

// Returns a key that orders groups by strength: the highest peak rate of any type, then memory,
// then bandwidth.
std::tuple<double, Bytes, double> compute_strength(const DeviceGroup& group);

// Returns the name of a submachine:
// with_units("dgx_h100:6,software=megatron", {5, 8}) = "dgx_h100:6,use=5/8,software=megatron"
std::string make_submachine_name(const std::string& name, const std::vector<std::int64_t>& units);

// Parses the units in use by level: "5/8" -> {5, 8}. Throws UserError with the machine's name if
// the levels do not match, or if a number exceeds the level's count.
std::vector<std::int64_t> parse_units(std::string_view text, const Machine& machine);

}  // namespace tandem::machine

#include "machine/submachine.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace tandem::machine {

std::tuple<double, Bytes, double> compute_strength(const DeviceGroup& group) {
  double fastest = 0;
  for (const auto& [type, peak] : group.device.peak) fastest = std::max(fastest, peak.value);
  return {fastest, group.device.memory, group.device.bandwidth.value};
}

namespace {

// Removes units of the weakest groups until only `units` are left.
void keep_strongest(std::vector<DeviceGroup>& groups, std::int64_t units) {
  std::int64_t all = 0;
  for (const auto& group : groups) all += group.units;
  while (all > units) {
    auto weakest = std::ranges::min_element(groups, {}, compute_strength);
    const auto left_out = std::min(weakest->units, all - units);
    weakest->units -= left_out;
    all -= left_out;
    if (weakest->units == 0) groups.erase(weakest);
  }
}

}  // namespace

std::string make_submachine_name(const std::string& name, const std::vector<std::int64_t>& units) {
  const auto software = std::min(name.find(",software="), name.size());
  // Units of a submachine are units of the whole machine, so the new list replaces the old one.
  const auto whole = std::min(name.find(",use="), software);
  return fmt::format("{},use={}{}", name.substr(0, whole), fmt::join(units, "/"),
                     name.substr(software));
}

std::optional<Machine> make_submachine(const Machine& machine,
                                       const std::vector<std::int64_t>& units) {
  auto out = machine;
  out.mappings.clear();
  bool changed = false;
  for (std::size_t l = 0; l < out.levels.size(); ++l) {
    auto& level = out.levels[l];
    if (units[l] == level.count) continue;
    if (level.network != nullptr) return std::nullopt;
    level.count = units[l];
    changed = true;
  }
  if (!changed) return out;
  if (!out.groups.empty()) {
    keep_strongest(out.groups, units[0]);
    out.device = make_weakest_device(out.groups);
    if (out.groups.size() == 1) {
      out.device = out.groups[0].device;
      out.groups.clear();
    }
  }
  out.name = make_submachine_name(machine.name, units);
  return out;
}

std::vector<Machine> split_by_device_kind(const Machine& machine) {
  if (machine.groups.empty()) return {machine};
  std::vector<Machine> out;
  for (const auto& group : machine.groups) {
    out.push_back(machine);
    out.back().groups.clear();
    out.back().device = group.device;
  }
  return out;
}

std::vector<std::int64_t> parse_units(std::string_view text, const Machine& machine) {
  std::vector<std::int64_t> out;
  const auto parts = split(text, '/');
  std::vector<std::string> most;
  for (const auto& level : machine.levels) most.push_back(std::to_string(level.count));
  const auto fail = [&](const std::string& message) {
    throw UserError("machine", machine.name, message,
                    fmt::format("give the number of used units for each level, at most use={}",
                                join(most, "/")));
  };
  if (parts.size() != machine.levels.size()) {
    fail(fmt::format("use={}: the machine has {} levels", text, machine.levels.size()));
  }
  for (std::size_t l = 0; l < parts.size(); ++l) {
    const auto n = parse_int(trim(parts[l]));
    if (!n || *n < 1 || *n > machine.levels[l].count) {
      fail(fmt::format("use={}: '{}' is not an integer from 1 to {}", text, parts[l],
                       machine.levels[l].count));
    }
    out.push_back(*n);
  }
  return out;
}

}  // namespace tandem::machine

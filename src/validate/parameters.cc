#include "validate/parameters.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "machine/device_fields.h"

namespace tandem::validate {

namespace {

using machine::Device;
using machine::Level;
using machine::Machine;

constexpr double kMicro = 1e-6;
constexpr double kMilli = 1e-3;

// Numbers of devices and their software, then of levels.
constexpr Parameter kParameters[] = {
    {"compute_utilization", 0.2, 1},
    {"matmul_setup", 4, 512},
    {"wave_softening", 0.01, 1},
    {"attention_utilization", 0.1, 1},
    {"attention_backward_utilization", 0.1, 1},
    {"memory_utilization", 0.2, 1},
    {"unaligned", 0.1, 1},
    {"launch", 0.5e-6, 100e-6, "us", kMicro},
    {"collective", 1e-6, 1e-3, "us", kMicro},
    {"dispatch", 1e-6, 300e-6, "us", kMicro},
    {"dispatch_backward", 0.5e-6, 300e-6, "us", kMicro},
    {"dispatch_collective", 1e-6, 500e-6, "us", kMicro},
    {"dispatch_send", 1e-6, 2e-3, "us", kMicro},
    {"micro_batch", 10e-6, 50e-3, "ms", kMilli},
    {"step", 100e-6, 500e-3, "ms", kMilli},
    {"interference", 0.01, 1},
    {"level gpu utilization", 0.2, 1},
    {"level gpu latency", 0.5e-6, 100e-6, "us", kMicro},
    {"level node utilization", 0.1, 1},
    {"level node utilization send", 0.1, 1},
    {"level node latency", 1e-6, 500e-6, "us", kMicro},
};

constexpr std::string_view kOfLevel = "level ";

const machine::NumberField<Device>& find_device_field(const Parameter& p) {
  const auto fields = machine::device_numbers();
  const auto at = std::ranges::find(fields, p.name, &machine::NumberField<Device>::name);
  CHECK(at != fields.end(), std::string(p.name));
  return *at;
}

// Returns the parameter's level, or null if the machine has no such level or one unit of it.
Level* find_level(const Parameter& p, Machine& machine) {
  const auto name = split_words(p.name)[1];
  const auto at = std::ranges::find(machine.levels, name, &Level::name);
  return at == machine.levels.end() || at->count < 2 ? nullptr : &*at;
}

bool is_latency(const Parameter& p) { return p.name.ends_with("latency"); }
bool is_send_utilization(const Parameter& p) { return p.name.ends_with("send"); }

}  // namespace

std::span<const Parameter> all_parameters() { return kParameters; }

std::vector<const Parameter*> parse_parameters(const std::string& names) {
  std::vector<const Parameter*> out;
  std::vector<std::string> known;
  for (const auto& p : kParameters) known.emplace_back(p.name);
  for (auto name : split(names, ',')) {
    const auto at = std::ranges::find(kParameters, name, &Parameter::name);
    if (at == std::end(kParameters)) {
      const auto near = find_nearest(name, known);
      throw UserError(
          "flag", "--parameters", fmt::format("the parameter '{}' is unknown", name),
          near.empty() ? "supported: " + join(known, ", ") : "did you mean '" + near + "'?");
    }
    out.push_back(&*at);
  }
  if (!out.empty()) return out;
  for (const auto& p : kParameters) out.push_back(&p);
  return out;
}

std::optional<double> get_value(const Parameter& p, const Machine& machine) {
  if (!p.name.starts_with(kOfLevel)) return find_device_field(p).get(machine.device);
  auto copy = machine;
  const auto* level = find_level(p, copy);
  if (level == nullptr) return std::nullopt;
  if (is_latency(p)) return level->latency.value;
  const auto& utilization =
      is_send_utilization(p) ? level->get_utilization(machine::Step::kSend) : level->utilization;
  if (!utilization.is_constant()) return std::nullopt;
  return utilization.at(Bytes{});
}

void set_value(const Parameter& p, double value, Machine& machine) {
  if (!p.name.starts_with(kOfLevel)) {
    const auto& field = find_device_field(p);
    field.at(machine.device) = value;
    for (auto& group : machine.groups) field.at(group.device) = value;
    return;
  }
  auto* level = find_level(p, machine);
  if (level == nullptr) return;
  if (is_latency(p)) {
    level->latency = Seconds{value};
  } else if (is_send_utilization(p)) {
    level->utilization_of_step[machine::Step::kSend] = value;
  } else {
    level->utilization = value;
  }
}

std::string format_line(const Parameter& p, double value) {
  return fmt::format("{} {:.3g}{}{}", p.name, value / p.in_unit, p.unit.empty() ? "" : " ", p.unit);
}

}  // namespace tandem::validate

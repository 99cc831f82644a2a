#include "validate/parameters.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace tandem::validate {

namespace {

using machine::Level;
using machine::Machine;

constexpr double kMicro = 1e-6;

template <double machine::Device::* Member>
std::optional<double> get_number(const Machine& m) {
  return m.device.*Member;
}
template <double machine::Device::* Member>
void set_number(Machine& m, double value) {
  m.device.*Member = value;
  for (auto& group : m.groups) group.device.*Member = value;
}

std::optional<double> get_launch(const Machine& m) { return m.device.launch.value; }
void set_launch(Machine& m, double value) {
  m.device.launch = Seconds{value};
  for (auto& group : m.groups) group.device.launch = Seconds{value};
}

constexpr char kNode[] = "node";
constexpr char kGpu[] = "gpu";

// Of a level with more than one unit; others say nothing.
template <const char* Name>
const Level* find_level(const Machine& m) {
  const auto at = std::ranges::find(m.levels, std::string_view(Name), &Level::name);
  return at == m.levels.end() || at->count < 2 ? nullptr : &*at;
}

template <const char* Name>
std::optional<double> get_utilization(const Machine& m) {
  const auto* level = find_level<Name>(m);
  if (level == nullptr || !level->utilization.is_constant()) return std::nullopt;
  return level->utilization.at(Bytes{});
}
template <const char* Name>
void set_utilization(Machine& m, double value) {
  for (auto& level : m.levels) {
    if (level.name == Name) level.utilization = value;
  }
}
template <const char* Name>
std::optional<double> get_latency(const Machine& m) {
  const auto* level = find_level<Name>(m);
  if (level == nullptr) return std::nullopt;
  return level->latency.value;
}
template <const char* Name>
void set_latency(Machine& m, double value) {
  for (auto& level : m.levels) {
    if (level.name == Name) level.latency = Seconds{value};
  }
}

using Device = machine::Device;
constexpr Parameter kParameters[] = {
    {"compute_utilization", 0.2, 1, "", 1, get_number<&Device::compute_utilization>,
     set_number<&Device::compute_utilization>},
    {"memory_utilization", 0.2, 1, "", 1, get_number<&Device::memory_utilization>,
     set_number<&Device::memory_utilization>},
    {"launch", 1e-6, 200e-6, "us", kMicro, get_launch, set_launch},
    {"level gpu utilization", 0.2, 1, "", 1, get_utilization<kGpu>, set_utilization<kGpu>},
    {"level gpu latency", 0.5e-6, 100e-6, "us", kMicro, get_latency<kGpu>, set_latency<kGpu>},
    {"level node utilization", 0.1, 1, "", 1, get_utilization<kNode>, set_utilization<kNode>},
    {"level node latency", 1e-6, 500e-6, "us", kMicro, get_latency<kNode>, set_latency<kNode>},
};

}  // namespace

std::span<const Parameter> all_parameters() { return kParameters; }

std::vector<const Parameter*> parameters_named(const std::string& names) {
  std::vector<const Parameter*> out;
  std::vector<std::string> known;
  for (const auto& p : kParameters) known.emplace_back(p.name);
  for (auto name : split(names, ',')) {
    const auto at = std::ranges::find(kParameters, name, &Parameter::name);
    if (at == std::end(kParameters)) {
      const auto near = nearest(name, known);
      throw UserError("flag", "--parameters", fmt::format("there is no parameter '{}'", name),
                      near.empty() ? "there are: " + join(known, ", ")
                                   : "did you mean '" + near + "'?");
    }
    out.push_back(&*at);
  }
  if (!out.empty()) return out;
  for (const auto& p : kParameters) out.push_back(&p);
  return out;
}

std::string line_of(const Parameter& p, double value) {
  return fmt::format("{} {:.3g}{}{}", p.name, value / p.in_unit, p.unit.empty() ? "" : " ",
                     p.unit);
}

}  // namespace tandem::validate

#include "machine/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "machine/device_fields.h"

namespace tandem::machine {

namespace {

struct ScaleKey {
  std::string_view name;
  double Scale::*factor;
};
constexpr std::array<ScaleKey, 7> kKeys = {{{"compute", &Scale::compute},
                                            {"capacity", &Scale::capacity},
                                            {"bandwidth", &Scale::bandwidth},
                                            {"intra", &Scale::intra},
                                            {"inter", &Scale::inter},
                                            {"latency", &Scale::latency},
                                            {"launch", &Scale::launch}}};
constexpr std::string_view kBothOfMemory = "memory";

double parse_factor(std::string_view key, std::string_view text) {
  constexpr double kLargest = 1e6;  // keeps rates far from where sums lose digits
  const auto factor = parse_double(text);
  if (!factor || !(*factor >= 1 / kLargest) || *factor > kLargest) {
    throw UserError("flag", "--scale", fmt::format("{} cannot be '{}'", key, text),
                    "expected a factor from 1e-6 to 1e6");
  }
  return *factor;
}

// The network of a level with scaled latencies.
class Delayed : public Network {
 public:
  Delayed(std::shared_ptr<const Network> network, double factor)
      : network_(std::move(network)), factor_(factor) {}

  [[nodiscard]] PatternCost compute_cost(Pattern pattern, const UnitGroups& groups) const override {
    auto out = network_->compute_cost(pattern, groups);
    out.latency = out.latency * factor_;
    return out;
  }
  [[nodiscard]] bool is_symmetric() const override { return network_->is_symmetric(); }
  [[nodiscard]] Hash hash() const override {
    return hash_combine(network_->hash(), std::bit_cast<Hash>(factor_));
  }

 private:
  std::shared_ptr<const Network> network_;
  double factor_;
};

void scale_device(const Machine& machine, const Scale& scale, Device& device) {
  for (auto& [type, peak] : device.peak) peak = peak * scale.compute;
  device.memory = device.memory * scale.capacity;
  device.bandwidth = device.bandwidth * scale.bandwidth;
  for (const auto& field : device_numbers()) {
    if (&field.kind == &kTime) field.at(device) *= scale.launch;
  }
  if (device.memory > device.reserve) return;
  throw UserError(
      "machine", machine.name,
      fmt::format("{} of memory leaves nothing after the reserve of {}",
                  format_bytes(device.memory.value), format_bytes(device.reserve.value)),
      "use a larger factor for the capacity");
}

}  // namespace

Scale parse_scale(std::string_view text) {
  Scale out;
  if (text == "none") return out;
  const auto parts = split(text, ',');
  if (parts.empty()) {
    throw UserError("flag", "--scale", "is empty", "write it like compute=10,inter=10");
  }
  std::set<std::string_view> said;
  for (const auto part : parts) {
    const auto equals = part.find('=');
    const auto name = trim(part.substr(0, equals));
    const auto at = std::ranges::find(kKeys, name, &ScaleKey::name);
    if (at == kKeys.end() && name != kBothOfMemory) {
      std::vector<std::string> names = {std::string(kBothOfMemory)};
      for (const auto& key : kKeys) names.emplace_back(key.name);
      throw UserError("flag", "--scale", fmt::format("'{}' cannot be scaled", name),
                      "expected one of: " + join(names, ", "));
    }
    const auto value = equals == std::string_view::npos ? "" : trim(part.substr(equals + 1));
    const double factor = parse_factor(name, value);
    for (const auto& key : kKeys) {
      const bool of_memory = key.factor == &Scale::capacity || key.factor == &Scale::bandwidth;
      if (key.name != name && !(of_memory && name == kBothOfMemory)) continue;
      if (!said.insert(key.name).second) {
        throw UserError("flag", "--scale", fmt::format("'{}' is given twice", key.name));
      }
      out.*key.factor = factor;
    }
  }
  return out;
}

std::string to_text(const Scale& scale) {
  std::vector<std::string> parts;
  const bool both = scale.capacity == scale.bandwidth && scale.capacity != 1;
  for (const auto& key : kKeys) {
    const auto factor = scale.*key.factor;
    const bool of_memory = key.factor == &Scale::capacity || key.factor == &Scale::bandwidth;
    if (factor == 1 || (both && key.factor == &Scale::bandwidth)) continue;
    parts.push_back(fmt::format("{}={}", both && of_memory ? kBothOfMemory : key.name, factor));
  }
  return parts.empty() ? "none" : join(parts, ",");
}

Machine scale_machine(Machine machine, const Scale& scale) {
  if (scale == Scale{}) return machine;
  if (machine.groups.empty()) {
    scale_device(machine, scale, machine.device);
  } else {
    for (auto& group : machine.groups) scale_device(machine, scale, group.device);
    machine.device = make_weakest_device(machine.groups);
  }
  for (std::size_t l = 0; l < machine.levels.size(); ++l) {
    auto& level = machine.levels[l];
    // A machine of one level is a node, so its links count as `intra`.
    const bool across = l == 0 && machine.levels.size() > 1;
    level.bandwidth = level.bandwidth * (across ? scale.inter : scale.intra);
    level.latency = level.latency * scale.latency;
    if (level.network != nullptr && scale.latency != 1) {
      level.network = std::make_shared<Delayed>(level.network, scale.latency);
    }
  }
  return machine;
}

}  // namespace tandem::machine

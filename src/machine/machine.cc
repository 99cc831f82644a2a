#include "machine/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "machine/device_fields.h"
#include "machine/edit.h"
#include "machine/embedded.h"
#include "machine/number.h"
#include "machine/parse.h"
#include "machine/submachine.h"

namespace tandem::machine {

namespace {

std::string format_builtin_source(std::string_view name) {
  return fmt::format("machines/{}.machine", name);
}

std::string read_file(const std::string& path) {
  constexpr std::size_t kMost = 1 << 20;  // also stops the reading of /dev/zero
  std::error_code ignored;
  std::ifstream in(path, std::ios::binary);
  const bool is_directory = std::filesystem::is_directory(path, ignored);
  if (!in || is_directory) {
    throw UserError("machine", path, is_directory ? "is a directory" : "cannot read this file",
                    "expected NAME:SIZE of a built-in machine, or the path of a machine file");
  }
  std::string text(kMost + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kMost) throw UserError("machine", path, "is larger than 1 MiB");
  return text;
}

bool is_path(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".machine");
}

std::optional<std::string> find_measured_local() {
  const auto path = measured_local_path();
  std::error_code ignored;
  if (path.empty() || !std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  return path;
}

[[noreturn]] void fail_unknown_machine(const std::string& name, std::string_view stem) {
  std::error_code ignored;
  if (std::filesystem::is_directory(name, ignored)) (void)read_file(name);  // throws the error
  std::vector<std::string> stems;
  std::vector<std::string> usages;
  std::string hint;
  for (const auto& b : list_builtin_machines()) {
    stems.push_back(b.name);
    usages.push_back(b.usage);
  }
  const auto near = std::ranges::find(stems, find_nearest(stem, stems));
  if (near != stems.end()) {
    hint = fmt::format("did you mean {}?", usages[static_cast<std::size_t>(near - stems.begin())]);
  } else {
    hint = fmt::format("built-in machines: {}; or give the path of a machine file",
                       join(usages, ", "));
  }
  throw UserError("machine", name, fmt::format("unknown machine '{}'", to_printable(stem)), hint);
}

// The text of a named machine, with the size in the name (0 if there is none).
struct MachineSource {
  std::string text, source;
  std::int64_t size;
  std::string software = {};
  std::string use = {};  // units by level; empty for all
};

MachineSource resolve_without_software(const std::string& name) {
  const auto builtin = [](std::string_view stem) {
    return std::ranges::find(embedded_machines(), stem, &EmbeddedFile::name);
  };
  const auto open = [&](const std::string& stem, std::int64_t size) -> MachineSource {
    const auto file = builtin(stem);
    if (file == embedded_machines().end()) return {read_file(stem), stem, size};
    if (const auto path = stem == "local" ? find_measured_local() : std::nullopt) {
      return {read_file(*path), *path, size};
    }
    return {std::string(file->text), format_builtin_source(stem), size};
  };

  std::error_code ignored;
  if (std::filesystem::is_regular_file(name, ignored)) return open(name, 0);
  const auto colon = name.rfind(':');
  const auto stem = name.substr(0, colon);
  if (!is_path(stem) && builtin(stem) == embedded_machines().end())
    fail_unknown_machine(name, stem);
  if (colon == std::string::npos) return open(name, 0);
  const auto size = parse_int(std::string_view(name).substr(colon + 1));
  if (!size || *size < 1) {
    throw UserError("machine", name,
                    fmt::format("size '{}' is not a positive integer", name.substr(colon + 1)),
                    fmt::format("write it like {}:8", stem));
  }
  return open(stem, *size);
}

// Removes `mark` and what follows it from the end of `name`. Returns what followed, or nullopt.
std::optional<std::string> take_ending(std::string& name, std::string_view mark) {
  const auto at = name.rfind(mark);
  if (at == std::string::npos) return std::nullopt;
  auto out = name.substr(at + mark.size());
  name.resize(at);
  return out;
}

// Resolves a full name: "dgx_a100:4,use=3/8,software=megatron".
MachineSource resolve(const std::string& name) {
  auto rest = name;
  const auto software = take_ending(rest, ",software=");
  if (software && software->empty()) {
    throw UserError("machine", name, "names no software profile",
                    fmt::format("`tandem machines {}` lists the software profiles", rest));
  }
  const auto use = take_ending(rest, ",use=");
  auto out = resolve_without_software(rest);
  out.software = software.value_or("");
  out.use = use.value_or("");
  return out;
}

Machine apply_use(Machine machine, const std::string& use) {
  if (use.empty()) return machine;
  auto out = make_submachine(machine, parse_units(use, machine));
  if (out) return std::move(*out);
  throw UserError(
      "machine", machine.name,
      fmt::format(
          "use={}: only a level whose units are all joined by one switch can be used in part",
          use));
}

}  // namespace

std::int64_t Machine::devices() const {
  std::int64_t n = 1;
  for (const auto& level : levels) n *= level.count;
  return n;
}

std::int64_t Machine::devices_below(std::size_t l) const {
  std::int64_t n = 1;
  for (std::size_t i = l + 1; i < levels.size(); ++i) n *= levels[i].count;
  return n;
}

std::size_t Machine::find_group(std::int64_t device) const {
  if (groups.empty()) return 0;
  auto unit = device / devices_below(0);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (unit < groups[g].units) return g;
    unit -= groups[g].units;
  }
  CHECK(false, device);
}

const Device& Machine::get_device(std::int64_t device) const {
  return groups.empty() ? this->device : groups[find_group(device)].device;
}

BytesPerSecond Machine::bandwidth_per_device(std::size_t l) const {
  const auto& level = levels[l];
  return level.shared ? level.bandwidth / static_cast<double>(devices_below(l)) : level.bandwidth;
}

Device make_weakest_device(const std::vector<DeviceGroup>& groups) {
  Device out = groups.front().device;
  Bytes usable = out.memory - out.reserve;
  for (const auto& group : groups) {
    const auto& d = group.device;
    if (("+" + out.name + "+").find("+" + d.name + "+") == std::string::npos) {
      out.name += "+" + d.name;
    }
    std::erase_if(out.peak, [&](const auto& entry) { return !d.peak.contains(entry.first); });
    for (auto& [type, peak] : out.peak) peak = std::min(peak, d.peak.at(type));
    usable = std::min(usable, d.memory - d.reserve);
    for (const auto& field : device_numbers()) {
      auto& least = field.at(out);
      least = field.more_is_weaker ? std::max(least, field.get(d)) : std::min(least, field.get(d));
    }
  }
  out.reserve = out.memory - usable;
  return out;
}

std::string measured_local_path() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (!variable("TANDEM_NO_CACHE").empty()) return "";
  auto directory = variable("XDG_CACHE_HOME");
  if (directory.empty() && !variable("HOME").empty()) directory = variable("HOME") + "/.cache";
  return directory.empty() ? "" : directory + "/tandem/local.machine";
}

Machine load_machine(const std::string& name) {
  const auto named = resolve(name);
  return apply_use(parse_machine(named.text, named.source, named.size, named.software), named.use);
}

Machine load_machine(const std::string& name, const std::vector<FieldValue>& fields) {
  auto [text, source, size, software, use] = resolve(name);
  for (const auto& field : fields) {
    text = with_field(text, field);
    source += fmt::format(", {}={}", to_printable(field.path), to_printable(field.value));
  }
  return apply_use(parse_machine(text, source, size, software), use);
}

MachineFile load_machine_file(const std::string& name) {
  const auto named = resolve(name);
  return read_machine_file(named.text, named.source, named.size, named.software);
}

Hash hash_machine(const Machine& machine) {
  Hash h = hash_text(machine.device.name);
  const auto add = [&h](double value) { h = hash_combine(h, std::bit_cast<Hash>(value)); };
  const auto add_device = [&](const Device& d) {
    for (const auto& [dtype, peak] : d.peak) {
      add(static_cast<double>(dtype));
      add(peak.value);
    }
    for (const auto& field : device_numbers()) add(field.get(d));
    for (const auto& field : device_words()) add(static_cast<double>(field.get(d)));
    for (const auto& [op, kernels] : d.software.kernels) {
      h = hash_combine(h, hash_text(op));
      add(kernels.forward);
      add(kernels.backward);
      add(kernels.unless);
    }
    if (!d.measured.empty()) h = hash_combine(h, d.measured.hash());
  };
  const auto add_utilization = [&](const Utilization& utilization) {
    add(utilization.at(Bytes{}));
    for (const auto& point : utilization.points()) {
      add(point.size.value);
      add(point.part);
    }
  };
  add_device(machine.device);
  for (const auto& l : machine.levels) {
    for (double v : {static_cast<double>(l.count), l.bandwidth.value, l.latency.value}) add(v);
    for (bool b : {l.shared, l.half_duplex, l.by_device, l.trees}) add(b ? 1 : 0);
    add_utilization(l.utilization);
    for (const auto& [step, utilization] : l.utilization_of_step) {
      add(static_cast<double>(step));
      add_utilization(utilization);
    }
    if (l.network != nullptr) h = hash_combine(h, l.network->hash());
  }
  for (const auto& group : machine.groups) {
    add_device(group.device);
    add(static_cast<double>(group.units));
  }
  return h;
}

std::vector<BuiltinMachine> list_builtin_machines() {
  std::vector<BuiltinMachine> out;
  for (const auto& file : embedded_machines()) {
    const auto source = format_builtin_source(file.name);
    const auto parsed = read_machine_file(file.text, source, 0);
    out.push_back({std::string(file.name), parsed.usage, parsed.doc});
  }
  std::ranges::sort(out, {}, &BuiltinMachine::name);
  return out;
}

}  // namespace tandem::machine

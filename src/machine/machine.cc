#include "machine/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/text.h"
#include "machine/embedded.h"
#include "machine/parse.h"

namespace tandem::machine {

namespace {

std::string builtin_source(std::string_view name) {
  return fmt::format("machines/{}.machine", name);
}

std::string read_file(const std::string& path) {
  constexpr std::size_t kMost = 1 << 20;  // also ends the reading of /dev/zero
  std::error_code ignored;
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path, ignored)) {
    throw UserError("machine", path, "cannot read this file",
                    "a machine is NAME:SIZE of a built-in one or the path of a machine file");
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

[[noreturn]] void unknown_machine(const std::string& name, std::string_view stem) {
  std::vector<std::string> stems;
  std::vector<std::string> usages;
  std::string hint;
  for (const auto& b : builtin_machines()) {
    stems.push_back(b.name);
    usages.push_back(b.usage);
  }
  const auto near = std::ranges::find(stems, nearest(stem, stems));
  if (near != stems.end()) {
    hint = fmt::format("did you mean {}?", usages[static_cast<std::size_t>(near - stems.begin())]);
  } else {
    hint = fmt::format("built in: {}; or the path of a machine file", join(usages, ", "));
  }
  throw UserError("machine", name, fmt::format("there is no machine '{}'", printable(stem)), hint);
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

BytesPerSecond Machine::bandwidth_per_device(std::size_t l) const {
  const auto& level = levels[l];
  return level.shared ? level.bandwidth / static_cast<double>(devices_below(l)) : level.bandwidth;
}

Machine load_machine(const std::string& name) {
  const auto builtin = [](std::string_view stem) {
    return std::ranges::find(embedded_machines(), stem, &EmbeddedFile::name);
  };
  const auto load = [&](const std::string& stem, std::int64_t size) {
    const auto file = builtin(stem);
    if (file != embedded_machines().end()) {
      return parse_machine(file->text, builtin_source(stem), size);
    }
    return parse_machine(read_file(stem), stem, size);
  };

  std::error_code ignored;
  if (std::filesystem::is_regular_file(name, ignored)) return load(name, 0);
  const auto colon = name.rfind(':');
  const auto stem = name.substr(0, colon);
  if (!is_path(stem) && builtin(stem) == embedded_machines().end()) unknown_machine(name, stem);
  if (colon == std::string::npos) return load(name, 0);
  const auto size = parse_int(std::string_view(name).substr(colon + 1));
  if (!size || *size < 1) {
    throw UserError(
        "machine", name,
        fmt::format("size '{}' is not a whole number of at least 1", name.substr(colon + 1)),
        fmt::format("write it like {}:8", stem));
  }
  return load(stem, *size);
}

Hash hash_of(const Machine& machine) {
  Hash h = hash_text(machine.device.name);
  const auto add = [&h](double value) { h = hash_combine(h, std::bit_cast<Hash>(value)); };
  const auto& d = machine.device;
  for (const auto& [dtype, peak] : d.peak) {
    add(static_cast<double>(dtype));
    add(peak.value);
  }
  for (double v : {d.compute_utilization, d.memory.value, d.reserve.value, d.bandwidth.value,
                   d.memory_utilization, d.launch.value}) {
    add(v);
  }
  for (const auto& l : machine.levels) {
    for (double v : {static_cast<double>(l.count), l.bandwidth.value, l.latency.value,
                     l.shared ? 1.0 : 0.0, l.utilization}) {
      add(v);
    }
  }
  return h;
}

std::vector<BuiltinMachine> builtin_machines() {
  std::vector<BuiltinMachine> out;
  for (const auto& file : embedded_machines()) {
    const auto source = builtin_source(file.name);
    const auto parsed = read_machine_file(file.text, source, 0);
    out.push_back({std::string(file.name), parsed.usage, parsed.doc});
  }
  std::ranges::sort(out, {}, &BuiltinMachine::name);
  return out;
}

}  // namespace tandem::machine

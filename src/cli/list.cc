// tandem models, machines, ops: list the built-in networks, machines and operators.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/command.h"
#include "machine/device_fields.h"
#include "machine/mapping.h"
#include "machine/parse.h"
#include "ops/registry.h"

namespace tandem::cli {

namespace {

void list_models(bool json) {
  Json out = Json::array();
  for (const auto* spec : models::all_models()) {
    const auto graph = models::parse_model(spec->name).build(spec->train_batch, DType::kFp32);
    Json keys = Json::object();
    for (const auto& h : spec->hyperparameters) keys[h.key] = h.value;
    out.push_back({{"name", spec->name},
                   {"doc", spec->doc},
                   {"parameters", models::count_parameters(graph)},
                   {"nodes", graph.size()},
                   {"hyperparameters", keys}});
  }
  if (json) return print_json(out);
  TextTable table(
      {{"network"}, {"parameters", Align::kRight}, {"nodes", Align::kRight}, {"description"}}, 0);
  std::vector<std::string> hyperparameters;
  for (const auto& m : out) {
    table.add({m["name"].get<std::string>(), format_count(m["parameters"].get<double>()),
               std::to_string(m["nodes"].get<int>()), m["doc"].get<std::string>()});
    std::vector<std::string> keys;
    for (const auto& [key, value] : m["hyperparameters"].items()) {
      keys.push_back(key + "=" + value.get<std::string>());
    }
    hyperparameters.push_back(join(keys, ","));
  }
  const auto lines = table.lines();
  std::cout << lines[0] << "\n";
  for (std::size_t i = 0; i < hyperparameters.size(); ++i) {
    std::cout << lines[i + 1] << "\n    " << hyperparameters[i] << "\n";
  }
  std::cout << fmt::format("{} networks; NAME:key=value,... overrides hyperparameters\n",
                           out.size());
}

void list_machines(bool json) {
  Json out = Json::array();
  for (const auto& m : machine::list_builtin_machines()) {
    const auto file = machine::load_machine_file(m.name);
    out.push_back({{"name", m.name},
                   {"usage", m.usage},
                   {"devices_per_size", file.machine.devices()},  // an open count is 1
                   {"doc", m.doc},
                   {"source", file.source}});
  }
  if (json) return print_json(out);
  TextTable table({{"machine"}, {"devices per unit", Align::kRight}, {"description"}}, 0);
  for (const auto& m : out) {
    table.add({m["usage"].get<std::string>(),
               std::to_string(m["devices_per_size"].get<std::int64_t>()),
               m["doc"].get<std::string>()});
  }
  std::cout << table.to_text();
}

// Returns whether an optional field of a machine file differs from its default. Returns false for
// fields that are printed for every device.
bool is_detail(const machine::NumberField<machine::Device>& field, const machine::Device& d) {
  constexpr std::array<std::string_view, 6> kShown = {
      "memory", "reserve", "bandwidth", "memory_utilization", "compute_utilization", "launch"};
  return std::ranges::find(kShown, field.name) == kShown.end() && field.get(d) != field.get({});
}
bool is_detail(const machine::WordField& field, const machine::Device& d) {
  return field.get(d) != field.get({});
}

// Adds the optional fields of a device to its JSON.
void add_details(Json& out, const machine::Device& d) {
  for (const auto& field : machine::device_numbers()) {
    const bool is_time = &field.kind == &machine::kTime;
    if (is_detail(field, d)) out[std::string(field.name) + (is_time ? "_s" : "")] = field.get(d);
  }
  for (const auto& field : machine::device_words()) {
    if (is_detail(field, d)) out[std::string(field.name)] = field.words[field.get(d)];
  }
  for (const auto& [op, kernels] : d.software.kernels) {
    out["kernels"][op] = {kernels.forward, kernels.backward};
    if (kernels.unless > 0) out["kernels"][op].push_back(kernels.unless);
  }
}

Json device_json(const machine::Device& d) {
  Json peak = Json::object();
  for (const auto& [type, rate] : d.peak) peak[std::string(name(type))] = rate.value;
  Json out = {{"name", d.name},
              {"peak", peak},
              {"compute_utilization", d.compute_utilization},
              {"memory_bytes", d.memory.value},
              {"reserve_bytes", d.reserve.value},
              {"bandwidth", d.bandwidth.value},
              {"memory_utilization", d.memory_utilization},
              {"launch_s", d.launch.value}};
  add_details(out, d);
  return out;
}

struct MachineFlags {
  bool json = false;
  std::string name;
  std::string grid;
};

std::vector<std::int64_t> parse_grid(const std::string& text) {
  std::vector<std::int64_t> grid;
  for (const auto piece : split(text, 'x')) {
    const auto degree = parse_int(piece);
    if (!degree || *degree < 1) {
      throw UserError("flag", "--grid", fmt::format("'{}' is not a list of degrees", text),
                      "write it like 8x6");
    }
    grid.push_back(*degree);
  }
  return grid;
}

Json mappings_json(const machine::Machine& m, const std::string& grid) {
  Json out = Json::array();
  for (const auto& mapping : machine::list_mappings(m, parse_grid(grid))) {
    Json entry = {{"text", machine::to_text(mapping, m)}};
    if (!mapping.name.empty()) entry["name"] = mapping.name;
    out.push_back(entry);
  }
  return out;
}

// Returns a number, or a list of the fractions that messages of some sizes reach.
Json utilization_json(const machine::Utilization& utilization) {
  if (utilization.points().empty()) return utilization.at(Bytes{});
  Json out = Json::array();
  for (const auto& [size, part] : utilization.points()) {
    out.push_back({{"bytes", size.value}, {"part", part}});
  }
  return out;
}

Json machine_json(const machine::MachineFile& file) {
  const auto& m = file.machine;
  Json levels = Json::array();
  for (const auto& l : m.levels) {
    levels.push_back({{"name", l.name},
                      {"count", l.count},
                      {"bandwidth", l.bandwidth.value},
                      {"shared", l.shared},
                      {"half_duplex", l.half_duplex},
                      {"by_device", l.by_device},
                      {"utilization", utilization_json(l.utilization)},
                      {"latency_s", l.latency.value},
                      {"trees", l.trees},
                      {"topology", l.topology}});
    for (const auto& [step, utilization] : l.utilization_of_step) {
      levels.back()["utilization_of"][std::string(machine::name(step))] =
          utilization_json(utilization);
    }
    if (l.name == file.open_level) levels.back()["open"] = true;
  }
  Json groups = Json::array();
  for (const auto& g : m.groups) {
    groups.push_back({{"name", g.name}, {"units", g.units}, {"device", device_json(g.device)}});
  }
  Json software = Json::array();
  for (const auto& s : file.software) software.push_back({{"name", s.name}, {"doc", s.doc}});
  Json names = Json::array();
  for (const auto& mapping : m.mappings) names.push_back(mapping.name);
  return {{"name", m.name},        {"usage", file.usage},    {"doc", file.doc},
          {"source", file.source}, {"devices", m.devices()}, {"device", device_json(m.device)},
          {"groups", groups},      {"levels", levels},       {"mappings", names},
          {"software", software},  {"sources", file.sources}};
}

// Prints the optional fields of a device, such as "units 108, matmul_setup 32, dispatch 30 us", in
// lines of at most about 100 characters.
void print_details(const machine::Device& d) {
  std::vector<std::string> parts;
  for (const auto& field : machine::device_numbers()) {
    if (!is_detail(field, d)) continue;
    parts.push_back(
        fmt::format("{} {}", field.name, machine::format_number(field.get(d), field.kind)));
  }
  for (const auto& field : machine::device_words()) {
    if (is_detail(field, d)) {
      parts.push_back(fmt::format("{} {}", field.name, field.words[field.get(d)]));
    }
  }
  for (const auto& [op, k] : d.software.kernels) {
    parts.push_back(fmt::format("kernels {} {:.3g} {:.3g}", op, k.forward, k.backward));
    if (k.unless > 0) parts.back() += fmt::format(" unless {:.3g}", k.unless);
  }
  constexpr std::size_t kWidth = 100;
  std::string line;
  for (const auto& part : parts) {
    if (!line.empty() && line.size() + part.size() > kWidth) {
      std::cout << "    " << line << ",\n";
      line.clear();
    }
    line += (line.empty() ? "" : ", ") + part;
  }
  if (!line.empty()) std::cout << "    " << line << "\n";
}

void print_device(const std::string& who, const machine::Device& d) {
  std::vector<std::string> peaks;
  for (const auto& [type, rate] : d.peak) {
    peaks.push_back(fmt::format("{} {}/s", name(type), format_flops(rate.value)));
  }
  std::cout << fmt::format(
      "{}: memory {} ({} reserved), bandwidth {}/s x {:.3g}, launch {}\n    peak {}, x {:.3g}\n",
      who, format_bytes(d.memory.value), format_bytes(d.reserve.value),
      format_bytes(d.bandwidth.value), d.memory_utilization, format_seconds(d.launch.value),
      join(peaks, ", "), d.compute_utilization);
  print_details(d);
}

void print_levels(const machine::MachineFile& file) {
  TextTable table({{"level"},
                   {"count", Align::kRight},
                   {"topology"},
                   {"bandwidth"},
                   {"latency", Align::kRight}});
  for (const auto& l : file.machine.levels) {
    const auto count = l.name == file.open_level ? "?" : std::to_string(l.count);
    table.add(
        {l.name, count, l.topology,
         fmt::format("{}/s x {} {}{}{}", format_bytes(l.bandwidth.value), to_text(l.utilization),
                     l.shared ? "shared" : "each", l.half_duplex ? ", half duplex" : "",
                     l.by_device ? ", driven by the device"
                     : l.trees   ? ", trees"
                                 : ""),
         format_seconds(l.latency.value)});
    for (const auto& [step, utilization] : l.utilization_of_step) {
      table.add({fmt::format("  {} x {}", machine::name(step), to_text(utilization))});
    }
  }
  std::cout << "Levels:\n" << table.to_text();
}

void print_machine(const machine::MachineFile& file) {
  const auto& m = file.machine;
  const bool open = !file.open_level.empty();
  std::cout << fmt::format("{}{}{}\n  {}from {}\n", open ? file.usage : m.name,
                           file.doc.empty() ? "" : ": ", file.doc,
                           open ? "" : pluralize(m.devices(), "device") + ", ", file.source);
  print_device(m.groups.empty() ? "device " + m.device.name : "weakest device", m.device);
  for (const auto& g : m.groups) {
    print_device(
        fmt::format("  {}: {} of {}", g.name, pluralize(g.units, m.levels[0].name), g.device.name),
        g.device);
  }
  print_levels(file);
  if (!file.software.empty()) std::cout << "Software profiles:\n";
  TextTable software({{""}, {""}});
  for (const auto& s : file.software) software.add({s.name, s.doc});
  std::cout << software.to_text();
  if (!file.sources.empty()) std::cout << "Sources:\n";
  for (const auto& source : file.sources) std::cout << "  " << source << "\n";
  if (!m.mappings.empty()) std::cout << "Mappings:\n";
  for (const auto& mapping : m.mappings) std::cout << "  " << mapping.name << "\n";
}

void show_machines(const MachineFlags& flags) {
  if (flags.name.empty()) return list_machines(flags.json);
  const auto file = machine::load_machine_file(flags.name);
  auto json = Json::array({machine_json(file)});
  if (!flags.grid.empty()) {
    json[0]["grid"] = mappings_json(machine::load_machine(flags.name), flags.grid);
  }
  if (flags.json) return print_json(json);
  print_machine(file);
  if (flags.grid.empty()) return;
  std::cout << fmt::format("Mappings of the grid {}: {}\n", flags.grid, json[0]["grid"].size());
  for (const auto& mapping : json[0]["grid"]) {
    const auto label = mapping.contains("name") ? mapping["name"].get<std::string>() + ": " : "";
    std::cout << "  " << label << mapping["text"].get<std::string>() << "\n";
  }
}

Json attributes_json(const ops::OpSpec& op) {
  Json out = Json::object();
  for (const auto& [name, value] : op.attributes) out[name] = value;
  return out;
}

std::string_view role_name(ops::Role role) {
  switch (role) {
    case ops::Role::kSource:
      return "source";
    case ops::Role::kCompute:
      return "compute";
    case ops::Role::kParallel:
      return "parallel";
    case ops::Role::kJoin:
      return "join";
  }
  CHECK(false);
}

Json op_json(const ops::OpSpec& op) {
  return {{"name", op.name}, {"role", role_name(op.role)},        {"index", op.index},
          {"doc", op.doc},   {"attributes", attributes_json(op)}, {"kernel", op.kernel},
          {"onnx", op.onnx}};
}

void print_op(const ops::OpSpec& op) {
  TextTable table({{""}, {""}});
  table.add({"index text", op.index});
  for (std::size_t i = 0; i < op.attributes.size(); ++i) {
    const auto& [name, value] = op.attributes[i];
    table.add({i == 0 ? "attributes" : "", fmt::format("{}={}", name, value)});
  }
  if (!op.kernel.empty()) table.add({"kernel", op.kernel});
  if (!op.onnx.empty()) table.add({"ONNX", join(op.onnx, ", ")});
  std::cout << fmt::format("{}: {}\n", op.name, op.doc) << table.to_text();
}

void list_ops(bool json) {
  Json out = Json::array();
  for (const auto* op : ops::all_ops()) out.push_back(op_json(*op));
  if (json) return print_json(out);
  TextTable table({{"operator"}, {"index text"}, {"description"}}, 0);
  for (const auto* op : ops::all_ops()) table.add({op->name, op->index, op->doc});
  std::cout << table.to_text();
  std::cout << fmt::format("{} operators; `tandem ops NAME` shows one with its attributes\n",
                           ops::all_ops().size());
}

struct OpsFlags {
  bool json = false;
  std::string name;
};

void show_ops(const OpsFlags& flags) {
  if (flags.name.empty()) return list_ops(flags.json);
  const auto& op = ops::find_op(flags.name);
  if (flags.json) return print_json(Json::array({op_json(op)}));
  print_op(op);
}

void add_list(CLI::App& app, const std::string& name, const std::string& doc, void list(bool)) {
  auto json = std::make_shared<bool>(false);
  add_command(app, name, doc, name + " --json", *json)->callback([json, list] { list(*json); });
}

}  // namespace

void add_models(CLI::App& app, int& /*exit_code*/) {
  add_list(app, "models", "list the built-in networks and their hyperparameters", list_models);
}
void add_machines(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<MachineFlags>();
  auto* command = add_command(app, "machines", "list the built-in machines",
                              "machines summit:8 --grid 8x6", flags->json);
  command->add_option("name", flags->name, "machine to show, with its devices, levels and sources");
  command->add_option("--grid", flags->grid, "list the mappings of this task grid, like 8x6")
      ->needs("name");
  command->callback([flags] { show_machines(*flags); });
}
void add_ops(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<OpsFlags>();
  auto* command = add_command(app, "ops", "list the operators with their index texts", "ops conv2d",
                              flags->json);
  command->add_option("name", flags->name, "operator to show, with its attributes");
  command->callback([flags] { show_ops(*flags); });
}

}  // namespace tandem::cli

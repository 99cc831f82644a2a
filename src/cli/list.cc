// tandem models, machines, ops: what is built in.
#include <fmt/format.h>

#include <iostream>

#include "base/text.h"
#include "cli/command.h"
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
  for (const auto& m : out) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : m["hyperparameters"].items()) {
      keys.push_back(key + "=" + value.get<std::string>());
    }
    std::cout << fmt::format("{:<18} {:>6} parameters, {:>4} nodes  {}\n{:19}{}\n",
                             m["name"].get<std::string>(), si(m["parameters"].get<double>()),
                             m["nodes"].get<int>(), m["doc"].get<std::string>(), "",
                             join(keys, ","));
  }
  std::cout << fmt::format("{} networks; NAME:key=value,... overrides what is listed\n",
                           out.size());
}

void list_machines(bool json) {
  Json out = Json::array();
  for (const auto& m : machine::builtin_machines()) {
    out.push_back({{"name", m.name}, {"usage", m.usage}, {"doc", m.doc}});
  }
  if (json) return print_json(out);
  for (const auto& m : machine::builtin_machines()) {
    std::cout << fmt::format("{:<18} {}\n", m.usage, m.doc);
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
  }
  CHECK(false);
}

Json op_json(const ops::OpSpec& op) {
  return {{"name", op.name}, {"role", role_name(op.role)},        {"index", op.index},
          {"doc", op.doc},   {"attributes", attributes_json(op)}, {"kernel", op.kernel},
          {"onnx", op.onnx}};
}

void print_op(const ops::OpSpec& op) {
  std::cout << fmt::format("{}: {}\n  index       {}\n", op.name, op.doc, op.index);
  for (std::size_t i = 0; i < op.attributes.size(); ++i) {
    const auto& [name, value] = op.attributes[i];
    std::cout << fmt::format("  {:<11} {}={}\n", i == 0 ? "attributes" : "", name, value);
  }
  if (!op.kernel.empty()) std::cout << fmt::format("  kernel      {}\n", op.kernel);
  if (!op.onnx.empty()) std::cout << fmt::format("  ONNX        {}\n", join(op.onnx, ", "));
}

void list_ops(bool json) {
  Json out = Json::array();
  for (const auto* op : ops::all_ops()) out.push_back(op_json(*op));
  if (json) return print_json(out);
  for (const auto* op : ops::all_ops()) {
    std::cout << fmt::format("{:<16} {:<44} {}\n", op->name, op->index, op->doc);
  }
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
  add_list(app, "machines", "list the built-in machines", list_machines);
}
void add_ops(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<OpsFlags>();
  auto* command = add_command(app, "ops", "list the operators with their index text", "ops conv2d",
                              flags->json);
  command->add_option("name", flags->name, "show this one with its attributes");
  command->callback([flags] { show_ops(*flags); });
}

}  // namespace tandem::cli

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
    std::cout << fmt::format("{:<12} {:>6} parameters, {} nodes: {}\n{:13}{}\n",
                             m["name"].get<std::string>(), si(m["parameters"].get<double>()),
                             m["nodes"].get<int>(), m["doc"].get<std::string>(), "",
                             join(keys, ","));
  }
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

void list_ops(bool json) {
  if (!json) {
    for (const auto* op : ops::all_ops()) {
      std::cout << fmt::format("{:<14} {:<40} {}\n", op->name, op->index, op->doc);
    }
    return;
  }
  Json out = Json::array();
  for (const auto* op : ops::all_ops()) {
    out.push_back({{"name", op->name},
                   {"index", op->index},
                   {"doc", op->doc},
                   {"kernel", op->kernel},
                   {"onnx", op->onnx}});
  }
  print_json(out);
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
  add_list(app, "ops", "list the operators with their index text", list_ops);
}

}  // namespace tandem::cli

// tandem show: a network, built in or in a file, as text to read, or its figures as JSON.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "graph/text.h"
#include "report/graph_text.h"

namespace tandem::cli {

namespace {

struct Flags {
  bool json = false;
  bool unfolded = false;
  std::string model;
  std::int64_t batch = 0;  // 0: not given
  std::string dtype;       // empty: not given
};

struct Shown {
  std::string name;
  std::optional<std::int64_t> batch;  // of a built-in network
  graph::Graph graph;

  [[nodiscard]] std::string title() const {
    return batch ? fmt::format("{}, batch {}", name, *batch) : name;
  }
};

// Is it the text of a graph, whatever the file is called?
bool is_graph_text(std::string_view text) {
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto first = words(line.substr(0, line.find('#')));
    if (!first.empty()) return first[0] == "graph";
  }
  return false;
}

Shown show_file(const Flags& flags, const std::string& text) {
  for (const auto& [flag, given] :
       {std::pair{"--batch", flags.batch > 0}, {"--dtype", !flags.dtype.empty()}}) {
    if (given) {
      throw UserError("flag", flag, fmt::format("the graph in {} says this itself", flags.model));
    }
  }
  auto graph = graph::parse_graph(text, flags.model);
  auto name = graph.name();
  return {.name = std::move(name), .batch = {}, .graph = std::move(graph)};
}

Shown show_model(const Flags& flags) {
  const auto model = load_model(flags.model);
  const auto batch = std::max<std::int64_t>(flags.batch, 1);
  DType dtype = DType::kFp32;
  if (!flags.dtype.empty()) CHECK(parse_attribute(flags.dtype, dtype), flags.dtype);
  return {.name = model.text, .batch = batch, .graph = model.build(batch, dtype)};
}

Shown load(const Flags& flags) {
  if (!std::filesystem::is_regular_file(flags.model)) return show_model(flags);
  const auto text = read_file(flags.model);
  return is_graph_text(text) ? show_file(flags, text) : show_model(flags);
}

Json tensor_json(const graph::Node& node) {
  Json shape = Json::array();
  for (auto size : node.type.shape.sizes) shape.push_back(size);
  return {{"name", node.name}, {"shape", shape}, {"dtype", name(node.type.dtype)}};
}

Json figures(const Shown& shown) {
  const auto& graph = shown.graph;
  std::size_t edges = 0;
  std::map<std::string, int> operators;
  Json inputs = Json::array();
  Json outputs = Json::array();
  for (auto id : graph.ids()) {
    edges += graph.inputs(id).size();
    ++operators[graph.node(id).op.name()];
    if (is_input(graph.node(id))) inputs.push_back(tensor_json(graph.node(id)));
  }
  for (auto id : graph.outputs()) outputs.push_back(tensor_json(graph.node(id)));
  Json out{{"name", shown.name}};
  if (shown.batch) out["batch"] = *shown.batch;
  out["parameters"] = models::count_parameters(graph);
  out["weights_bytes"] = static_cast<std::int64_t>(models::weights_bytes(graph).value);
  out["nodes"] = graph.size();
  out["edges"] = edges;
  out["flops_forward"] = models::count_forward_flops(graph).value;
  out["identity_hash"] = fmt::format("{:016x}", graph.identity_hash());
  out["shape_hash"] = fmt::format("{:016x}", graph.shape_hash());
  out["operators"] = operators;
  out["inputs"] = inputs;
  out["outputs"] = outputs;
  return out;
}

void show(const Flags& flags) {
  const auto shown = load(flags);
  if (flags.json) {
    print_json(figures(shown));
  } else if (flags.unfolded) {
    std::cout << graph::to_text(shown.graph);
  } else {
    std::cout << report::graph_text(shown.graph, shown.title());
  }
}

}  // namespace

void add_show(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<Flags>();
  auto* command = add_command(app, "show", "print a network's graph; the text parses back",
                              "show mlp:layers=4 --batch 64", flags->json);
  command->add_option("model", flags->model, "NAME or NAME:key=value,..., or a file of graph text")
      ->required();
  command->add_option("--batch", flags->batch, "global batch; default: 1")->check(kPositive);
  command->add_option("--dtype", flags->dtype, "element type; default: fp32")
      ->check(CLI::IsMember({"fp64", "fp32", "bf16", "fp16"}));
  command->add_flag("--unfolded", flags->unfolded, "every node on a line of its own");
  command->callback([flags] { show(*flags); });
}

}  // namespace tandem::cli

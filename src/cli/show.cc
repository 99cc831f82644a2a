// tandem show: a network, built in or in a file, as text to read, or its figures as JSON.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "graph/json.h"
#include "graph/text.h"
#include "import/onnx.h"
#include "report/graph_text.h"

namespace tandem::cli {

namespace {

struct Flags {
  bool json = false;
  bool unfolded = false;
  bool graph_json = false;
  std::string model;
  std::vector<std::string> dims;  // NAME=SIZE
  std::int64_t batch = 0;         // 0: not given
  std::string dtype;              // empty: not given
};

struct Shown {
  std::string name;
  std::optional<std::int64_t> batch;  // unless the graph says it itself
  graph::Graph graph;
  std::map<std::string, int> folded = {};        // of an imported file, by operator
  std::vector<std::string> fixed_inputs = {};    // whose contents the file holds
  std::vector<std::string> derived_inputs = {};  // that the file computes from others

  [[nodiscard]] std::string title() const {
    return batch ? fmt::format("{}, batch {}", name, *batch) : name;
  }
};

// Flags that do not go with this kind of file.
void refuse(const Flags& flags, const std::vector<std::pair<const char*, bool>>& given) {
  for (const auto& [flag, is_given] : given) {
    if (!is_given) continue;
    throw UserError("flag", flag, fmt::format("the graph in {} says this itself", flags.model));
  }
}

Shown show_file(const Flags& flags, const graph::Graph& graph) {
  refuse(flags, {{"--batch", flags.batch > 0},
                 {"--dtype", !flags.dtype.empty()},
                 {"--dim", !flags.dims.empty()}});
  return {.name = graph.name(), .batch = {}, .graph = graph};
}

Shown show_onnx(const Flags& flags) {
  refuse(flags, {{"--dtype", !flags.dtype.empty()}});
  import::OnnxOptions options;
  options.batch = flags.batch;
  for (const auto& text : flags.dims) {
    const auto equals = text.rfind('=');
    const auto size = parse_int(equals == std::string::npos ? "" : text.substr(equals + 1));
    if (!size || *size < 0) {
      throw UserError("flag", "--dim", fmt::format("'{}' is not NAME=SIZE", text));
    }
    options.dims[text.substr(0, equals)] = *size;
  }
  auto model = import::import_onnx_file(flags.model, options);
  Shown out{.name = model.graph.name(), .batch = model.batch, .graph = model.graph};
  out.folded = std::move(model.folded);
  for (const auto& [name, contents] : model.fixed) out.fixed_inputs.push_back(name);
  out.derived_inputs = std::move(model.derived);
  return out;
}

Shown show_model(const Flags& flags) {
  const auto model = load_model(flags.model);
  const auto batch = std::max<std::int64_t>(flags.batch, 1);
  DType dtype = DType::kFp32;
  if (!flags.dtype.empty()) CHECK(parse_attribute(flags.dtype, dtype), flags.dtype);
  return {.name = model.text, .batch = batch, .graph = model.build(batch, dtype)};
}

Shown load(const Flags& flags) {
  if (!std::filesystem::is_regular_file(flags.model)) {
    if (flags.model.ends_with(".onnx")) throw UserError("file", flags.model, "cannot be read");
    return show_model(flags);
  }
  if (import::is_onnx_file(flags.model)) return show_onnx(flags);
  const auto text = read_file(flags.model);
  if (graph::is_graph_text(text)) return show_file(flags, graph::parse_graph(text, flags.model));
  if (graph::is_graph_json(text)) return show_file(flags, graph::parse_json(text, flags.model));
  return show_model(flags);
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
  if (!shown.folded.empty()) out["folded"] = shown.folded;
  if (!shown.fixed_inputs.empty()) out["fixed_inputs"] = shown.fixed_inputs;
  if (!shown.derived_inputs.empty()) out["derived_inputs"] = shown.derived_inputs;
  return out;
}

// What an imported file had and the graph has not: "# folded: 3 Constant, 12 Shape".
std::string import_comments(const Shown& shown) {
  std::vector<std::string> folded;
  for (const auto& [op, count] : shown.folded) folded.push_back(fmt::format("{} {}", count, op));
  std::string out;
  if (!folded.empty()) out += "# folded: " + join(folded, ", ") + "\n";
  if (!shown.fixed_inputs.empty()) {
    out += "# inputs that the file fixes: " + join(shown.fixed_inputs, ", ") + "\n";
  }
  if (!shown.derived_inputs.empty()) {
    out +=
        "# inputs that the file computes from others: " + join(shown.derived_inputs, ", ") + "\n";
  }
  return out;
}

void show(const Flags& flags) {
  const auto shown = load(flags);
  if (flags.graph_json) {
    std::cout << graph::to_json(shown.graph);
  } else if (flags.json) {
    print_json(figures(shown));
  } else if (flags.unfolded) {
    std::cout << import_comments(shown) << graph::to_text(shown.graph);
  } else {
    std::cout << import_comments(shown) << report::graph_text(shown.graph, shown.title());
  }
}

}  // namespace

void add_show(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<Flags>();
  auto* command = add_command(app, "show", "print a network's graph; the text parses back",
                              "show mlp:layers=4 --batch 64", flags->json);
  command
      ->add_option("model", flags->model,
                   "NAME or NAME:key=value,..., or a file: graph text, graph JSON, ONNX")
      ->required();
  command->add_option("--batch", flags->batch, "global batch; default: 1")->check(kPositive);
  command->add_option("--dtype", flags->dtype, "element type; default: fp32")
      ->check(CLI::IsMember({"fp64", "fp32", "bf16", "fp16"}));
  command->add_option("--dim", flags->dims, "NAME=SIZE: a symbolic dimension of an ONNX file");
  command->add_flag("--graph-json", flags->graph_json,
                    "the graph as JSON, which `show` reads, too");
  command->add_flag("--unfolded", flags->unfolded, "every node on a line of its own");
  command->callback([flags] { show(*flags); });
}

}  // namespace tandem::cli

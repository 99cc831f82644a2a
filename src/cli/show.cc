// tandem show: prints a network as text, for Graphviz, or its figures as JSON. For a plan, or with
// --machine, it prints what each device does.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "cli/read_plan.h"
#include "cli/show_mapped.h"
#include "graph/json.h"
#include "graph/text.h"
#include "import/onnx.h"
#include "plan/json.h"
#include "report/dot.h"
#include "report/graph_text.h"
#include "strategies/model_figures.h"

namespace tandem::cli {

namespace {

struct ShowFlags {
  bool json = false;
  bool unfolded = false;
  bool graph_json = false;
  bool text = false;
  bool dot = false;
  std::string model;
  std::string machine;
  std::string strategy = "dp";
  std::string optimizer;  // empty: not given
  bool stale_weights = false;
  std::vector<std::string> not_with_a_plan;  // given flags that a plan excludes

  std::vector<std::string> dims;  // NAME=SIZE
  std::int64_t batch = 0;         // 0: not given
  std::string dtype;              // empty: not given

  [[nodiscard]] Form form() const {
    if (graph_json) return Form::kGraphJson;
    if (json) return Form::kJson;
    if (dot) return Form::kDot;
    return text ? Form::kText : Form::kWords;
  }
};

struct Shown {
  std::string name;
  std::optional<std::int64_t> batch;  // empty: the graph determines it
  graph::Graph graph;
  std::map<std::string, int> folded = {};        // folded operators of an imported file, by name
  std::vector<std::string> fixed_inputs = {};    // inputs whose contents are in the file
  std::vector<std::string> derived_inputs = {};  // inputs that the file computes from others

  [[nodiscard]] std::int64_t samples() const {
    return batch ? *batch : strategies::count_samples(graph);
  }
  [[nodiscard]] std::string title() const {
    return batch ? fmt::format("{}, batch {}", name, *batch) : name;
  }
};

// Throws UserError if one of the flags was given; they do not apply to this kind of file.
void refuse(const ShowFlags& flags, const std::vector<std::pair<const char*, bool>>& given) {
  for (const auto& [flag, is_given] : given) {
    if (!is_given) continue;
    throw UserError("flag", flag,
                    fmt::format("cannot be used with {}, whose graph determines it", flags.model),
                    "leave it out");
  }
}

Shown load_graph_file(const ShowFlags& flags, const graph::Graph& graph) {
  refuse(flags, {{"--batch", flags.batch > 0},
                 {"--dtype", !flags.dtype.empty()},
                 {"--dim", !flags.dims.empty()}});
  return {.name = graph.name(), .batch = {}, .graph = graph};
}

Shown load_onnx(const ShowFlags& flags) {
  refuse(flags, {{"--dtype", !flags.dtype.empty()}});
  import::OnnxOptions options;
  options.batch = flags.batch;
  for (const auto& text : flags.dims) {
    const auto equals = text.rfind('=');
    const auto size = parse_int(equals == std::string::npos ? "" : text.substr(equals + 1));
    if (!size || *size < 0) {
      throw UserError("flag", "--dim", fmt::format("'{}' is not NAME=SIZE", text),
                      "give a size of 0 or more, for example batch=8");
    }
    if (!options.dims.emplace(text.substr(0, equals), *size).second) {
      throw UserError("flag", "--dim", fmt::format("'{}' is given twice", text.substr(0, equals)),
                      "remove one");
    }
  }
  auto model = import::import_onnx_file(flags.model, options);
  Shown out{.name = model.graph.name(), .batch = model.batch, .graph = model.graph};
  out.folded = std::move(model.folded);
  for (const auto& [name, contents] : model.fixed) out.fixed_inputs.push_back(name);
  out.derived_inputs = std::move(model.derived);
  return out;
}

Shown build_model(const ShowFlags& flags) {
  const auto model = load_model(flags.model);
  if (!flags.dims.empty()) {
    const bool has_sizes = flags.model.find(':') != std::string::npos;
    throw UserError(
        "flag", "--dim", "is for symbolic dimensions of an ONNX file, given by its path alone",
        has_sizes ? "set sizes after the ':' of the model"
                  : fmt::format("set sizes in the model: {}:{}", flags.model, flags.dims[0]));
  }
  const auto batch = std::max<std::int64_t>(flags.batch, 1);
  DType dtype = DType::kFp32;
  if (!flags.dtype.empty()) CHECK(parse_attribute(flags.dtype, dtype), flags.dtype);
  return {.name = model.text, .batch = batch, .graph = model.build(batch, dtype)};
}

Shown load(const ShowFlags& flags) {
  if (!std::filesystem::is_regular_file(flags.model)) return build_model(flags);
  if (import::is_onnx_file(flags.model)) return load_onnx(flags);
  const auto text = read_file(flags.model);
  if (graph::is_graph_text(text))
    return load_graph_file(flags, graph::parse_graph(text, flags.model));
  if (graph::is_graph_json(text))
    return load_graph_file(flags, graph::parse_graph_json(text, flags.model));
  return build_model(flags);
}

Json tensor_json(const graph::Node& node) {
  Json shape = Json::array();
  for (auto size : node.type.shape.sizes) shape.push_back(size);
  return {{"name", node.name}, {"shape", shape}, {"dtype", name(node.type.dtype)}};
}

// Adds to `out` the parameters by kind of layer, and the cost of a sample and, if there are tokens,
// of a token.
void add_figures(const strategies::ModelFigures& figures, Json& out) {
  out["parameters_by_kind"] = Json::object();
  for (const auto& [kind, count] : figures.parameters) {
    out["parameters_by_kind"][std::string(name(kind))] = count;
  }
  out["flops_per_sample"] = figures.flops.value;
  out["lookup_bytes_per_sample"] = figures.lookups.value;
  if (figures.tokens == 0) return;
  out["tokens_per_sample"] = figures.tokens;
  out["flops_per_token"] = figures.flops_per_token().value;
  out["lookup_bytes_per_token"] = figures.lookups_per_token().value;
}

Json make_figures(const Shown& shown) {
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
  out["weights_bytes"] = static_cast<std::int64_t>(models::count_weight_bytes(graph).value);
  out["nodes"] = graph.size();
  out["edges"] = edges;
  out["flops_forward"] = models::count_forward_flops(graph).value;
  out["identity_hash"] = fmt::format("{:016x}", graph.identity_hash());
  out["shape_hash"] = fmt::format("{:016x}", graph.shape_hash());
  add_figures(strategies::compute_figures(graph, shown.samples()), out);
  out["operators"] = operators;
  out["inputs"] = inputs;
  out["outputs"] = outputs;
  if (!shown.folded.empty()) out["folded"] = shown.folded;
  if (!shown.fixed_inputs.empty()) out["fixed_inputs"] = shown.fixed_inputs;
  if (!shown.derived_inputs.empty()) out["derived_inputs"] = shown.derived_inputs;
  return out;
}

// Returns comments on operators and inputs of an imported file that the graph lacks: "# folded: 3
// Constant, 12 Shape".
std::string format_import_comments(const Shown& shown) {
  std::vector<std::string> folded;
  for (const auto& [op, count] : shown.folded) folded.push_back(fmt::format("{} {}", count, op));
  std::string out;
  if (!folded.empty()) out += "# folded: " + join(folded, ", ") + "\n";
  if (!shown.fixed_inputs.empty()) {
    out += "# inputs with contents in the file: " + join(shown.fixed_inputs, ", ") + "\n";
  }
  if (!shown.derived_inputs.empty()) {
    out +=
        "# inputs that the file computes from others: " + join(shown.derived_inputs, ", ") + "\n";
  }
  return out;
}

void show_graph(const ShowFlags& flags) {
  for (const auto& flag : flags.not_with_a_plan) {
    if (flag != "--strategy" && flag != "--optimizer" && flag != "--stale-weights") continue;
    throw UserError("flag", flag, "requires --machine",
                    "add --machine; `tandem machines` lists the machines");
  }
  const auto shown = load(flags);
  const auto is_equivalent = [&](graph::NodeId, graph::NodeId) { return !flags.unfolded; };
  switch (flags.form()) {
    case Form::kGraphJson:
      std::cout << graph::to_json(shown.graph);
      return;
    case Form::kJson:
      print_json(make_figures(shown));
      return;
    case Form::kDot:
      std::cout << report::to_dot(shown.graph,
                                  report::split_into_blocks(shown.graph, is_equivalent));
      return;
    case Form::kText:
    case Form::kWords:
      std::cout << format_import_comments(shown)
                << (flags.unfolded
                        ? graph::to_text(shown.graph)
                        : report::graph_text(shown.graph, shown.title(), shown.samples()));
      return;
  }
}

void show(const ShowFlags& flags) {
  const Job job{.model_text = flags.model,
                .machine_text = flags.machine,
                .batch = flags.batch,
                .optimizer = flags.optimizer,
                .dtype = flags.dtype.empty() ? "fp32" : flags.dtype,
                .master = {},
                .grad_dtype = {},
                .memory = {},
                .dims = {},
                .stale_weights = flags.stale_weights};
  if (is_plan_file(flags.model)) {
    show_mapped(lower_plan(job, flags.not_with_a_plan), flags.form(), flags.unfolded);
  } else if (flags.machine.empty()) {
    show_graph(flags);
  } else if (!flags.dims.empty()) {
    throw UserError("flag", "--dim", "cannot be used with --machine",
                    fmt::format("set sizes in the model: {}:{}", flags.model, flags.dims[0]));
  } else {
    show_mapped(lower_strategy(job, flags.strategy), flags.form(), flags.unfolded);
  }
}

}  // namespace

void add_show(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<ShowFlags>();
  auto* command =
      add_command(app, "show", "print the graph of a network, of a strategy or of a plan",
                  "show bert_large --machine summit:2 --strategy megatron", flags->json);
  command
      ->add_option("model", flags->model,
                   "NAME or NAME:key=value,..., or a file: plan, graph text, graph JSON, ONNX")
      ->required();
  command
      ->add_option("--batch", flags->batch,
                   "global batch size; default: 1, with --machine the model's own")
      ->check(kPositive);
  command->add_option("--dtype", flags->dtype, "element type; default: fp32")
      ->check(CLI::IsMember({"fp64", "fp32", "bf16", "fp16"}));
  command->add_option("--dim", flags->dims,
                      "size of a symbolic dimension of an ONNX file: NAME=SIZE");
  command->add_option("--machine", flags->machine, "NAME:SIZE or a machine file");
  command->add_option(
      "--strategy", flags->strategy,
      "with --machine: dp, megatron:tp=N, ... (docs/reference/strategies.md); default: dp");
  command->add_option("--optimizer", flags->optimizer, "optimizer; default: the model's own")
      ->check(CLI::IsMember({"sgd", "momentum", "adam"}));
  add_stale_flag(*command, flags->stale_weights);
  command->add_flag("--text", flags->text, "print the graph's text, which tandem can read again");
  command->add_flag("--dot", flags->dot,
                    "print the graph for Graphviz: tandem show mlp --dot | dot -Tsvg");
  command->add_flag("--graph-json", flags->graph_json,
                    "print the graph as JSON, which tandem can read again");
  command->add_flag("--unfolded", flags->unfolded,
                    "print every node instead of folding equal layers");
  for (const char* flag : {"--text", "--dot", "--graph-json"}) {
    for (const char* other : {"--text", "--dot", "--graph-json", "--json"}) {
      if (std::string_view(flag) != other) command->get_option(flag)->excludes(other);
    }
  }
  command->callback([flags, command] {
    for (const char* flag :
         {"--batch", "--optimizer", "--dtype", "--strategy", "--stale-weights", "--dim"}) {
      if (command->count(flag) > 0) flags->not_with_a_plan.emplace_back(flag);
    }
    show(*flags);
  });
}

}  // namespace tandem::cli

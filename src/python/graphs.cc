// Graphs: reading, building from a model, inspection, saving, and reference evaluation in double.
#include <fmt/format.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>

#include "base/error.h"
#include "cli/command.h"
#include "graph/json.h"
#include "graph/sequential.h"
#include "graph/text.h"
#include "ops/attributes.h"
#include "python/bindings.h"
#include "python/call.h"
#include "python/nodes.h"
#include "strategies/model_figures.h"

namespace tandem::python {

NodeView make_node_view(const graph::Node& node, std::vector<std::string> inputs) {
  const auto& sizes = node.type.shape.sizes;
  NodeView out{.name = node.name,
               .op = node.op.name(),
               .attributes = {},
               .inputs = std::move(inputs),
               .shape = {sizes.begin(), sizes.end()},
               .dtype = std::string(name(node.type.dtype))};
  const auto attributes = graph::split_attributes(node.op.attribute_text());
  CHECK(attributes.has_value(), node.op.attribute_text());
  for (const auto& [key, value] : *attributes) out.attributes[key] = value;
  return out;
}

namespace {

namespace py = pybind11;
using graph::Graph;
using Array = py::array_t<double, py::array::c_style | py::array::forcecast>;

Graph parse(const std::string& text, const std::string& source) {
  return graph::is_graph_json(text) ? graph::parse_graph_json(text, source)
                                    : graph::parse_graph(text, source);
}

Graph build(const std::string& model_text, std::int64_t batch, const std::string& dtype_text) {
  DType dtype = DType::kFp32;
  if (!parse_attribute(dtype_text, dtype)) {
    throw UserError("flag", "dtype", fmt::format("cannot be '{}'", dtype_text),
                    "use fp64, fp32, bf16 or fp16");
  }
  if (batch < 0) {
    throw UserError("flag", "batch", fmt::format("cannot be {}", batch), "use a positive integer");
  }
  const auto model = cli::load_model(model_text);
  return model.build(batch > 0 ? batch : model.spec->train_batch, dtype);
}

std::vector<NodeView> list_nodes(const Graph& graph) {
  std::vector<NodeView> out;
  for (auto id : graph.ids()) {
    std::vector<std::string> inputs;
    for (auto input : graph.inputs(id)) inputs.push_back(graph.node(input).name);
    out.push_back(make_node_view(graph.node(id), std::move(inputs)));
  }
  return out;
}

std::vector<std::string> list_outputs(const Graph& graph) {
  std::vector<std::string> out;
  for (auto id : graph.outputs()) out.push_back(graph.node(id).name);
  return out;
}

// --- Values ---

void check_indices(const graph::Node& node, const Dense<double>& value) {
  if (!is_integer(node.type.dtype)) return;
  const auto below = is_input(node) ? node.op.get<ops::Input>().below : 0;
  for (double element : value.data) {
    if (element == std::floor(element) && element >= 0 &&
        (below == 0 || element < static_cast<double>(below))) {
      continue;
    }
    throw UserError("value", node.name, fmt::format("has the element {}", element),
                    below == 0 ? "elements must be non-negative integers"
                               : fmt::format("elements must be integers from 0 to {}", below - 1));
  }
}

Dense<double> to_dense(const graph::Node& node, const Array& array) {
  const std::span<const py::ssize_t> sizes(array.shape(), static_cast<std::size_t>(array.ndim()));
  const auto& shape = node.type.shape.sizes;
  if (!std::ranges::equal(sizes, shape)) {
    throw UserError(
        "value", node.name,
        fmt::format("is given with shape [{}], but the node has shape [{}]", fmt::join(sizes, ", "),
                    fmt::join(shape.begin(), shape.end(), ", ")));
  }
  Dense<double> out(shape, std::vector<double>(array.data(), array.data() + array.size()));
  check_indices(node, out);
  return out;
}

py::array_t<double> to_array(const Dense<double>& value) {
  py::array_t<double> out(std::vector<py::ssize_t>(value.shape.begin(), value.shape.end()));
  std::ranges::copy(value.data, out.mutable_data());
  return out;
}

// Returns the given values by node name. Throws UserError if a name is not an input or weight.
std::map<std::string, Dense<double>> convert_values(const Graph& graph,
                                                    const std::map<std::string, Array>& values) {
  std::map<std::string, Dense<double>> out;
  for (auto id : graph.ids()) {
    const auto& node = graph.node(id);
    const auto at = values.find(node.name);
    if (at == values.end()) continue;
    if (!is_input(node) && !is_weight(node)) {
      throw UserError("value", node.name, "is computed, so it cannot be given",
                      "only inputs and weights can be given");
    }
    out.emplace(node.name, to_dense(node, at->second));
  }
  for (const auto& [name, value] : values) {
    if (!out.contains(name)) {
      throw UserError("value", name, fmt::format("is not an input or weight of {}", graph.name()));
    }
  }
  return out;
}

std::map<std::string, py::array_t<double>> evaluate(const Graph& graph,
                                                    const std::map<std::string, Array>& values,
                                                    const std::set<std::string>& wanted,
                                                    std::uint64_t seed) {
  const auto own = convert_values(graph, values);
  graph::Values<double> all;
  run_call([&] {
    const auto random = graph::make_feed_values<double>(graph, seed);
    all = graph::run_forward<double>(graph, [&](graph::NodeId id) {
      const auto at = own.find(graph.node(id).name);
      return at != own.end() ? at->second : random(id);
    });
  });
  std::map<std::string, py::array_t<double>> out;
  for (auto id : graph.ids()) {
    const auto& name = graph.node(id).name;
    const bool is_output = std::ranges::find(graph.outputs(), id) != graph.outputs().end();
    if (wanted.empty() ? is_output : wanted.contains(name)) out[name] = to_array(all[id.index()]);
  }
  for (const auto& name : wanted) {
    if (!out.contains(name)) throw UserError("value", name, "is not a node of " + graph.name());
  }
  return out;
}

}  // namespace

void bind_graphs(py::module_& module) {
  using GilFree = py::call_guard<py::gil_scoped_release>;
  py::class_<NodeView>(module, "Node", "A node of a graph, and its tensor.")
      .def_readonly("name", &NodeView::name)
      .def_readonly("op", &NodeView::op, "The operator's name.")
      .def_readonly("attributes", &NodeView::attributes,
                    "The attributes without default values, as in graph text.")
      .def_readonly("inputs", &NodeView::inputs, "The names of its inputs.")
      .def_property_readonly("shape",
                             [](const NodeView& node) { return py::tuple(py::cast(node.shape)); })
      .def_readonly("dtype", &NodeView::dtype)
      .def("__repr__", [](const NodeView& node) {
        return fmt::format("<{} %{} [{}] {}>", node.op, node.name, fmt::join(node.shape, ", "),
                           node.dtype);
      });
  py::class_<Graph>(module, "Graph", "A network for one batch. Immutable.")
      .def_static("parse", parse, py::arg("text"), py::arg("source") = "graph")
      .def_static("build", build, py::arg("model"), py::arg("batch"), py::arg("dtype"), GilFree())
      .def_property_readonly("name", &Graph::name)
      .def_property_readonly("nodes", list_nodes)
      .def_property_readonly("outputs", list_outputs)
      .def_property_readonly("batch", strategies::count_samples)
      .def_property_readonly("parameters", models::count_parameters)
      .def_property_readonly(
          "flops_forward",
          [](const Graph& graph) { return models::count_forward_flops(graph).value; })
      .def_property_readonly("identity_hash", &Graph::identity_hash)
      .def("to_text", [](const Graph& graph) { return graph::to_text(graph); })
      .def("to_json", [](const Graph& graph) { return graph::to_json(graph); })
      .def("evaluate", evaluate, py::arg("values"), py::arg("wanted"), py::arg("seed"))
      .def("__len__", &Graph::size);
}

}  // namespace tandem::python

// Builds graphs node by node and checks every node when it is added.
#include <pybind11/stl.h>

#include <algorithm>

#include "base/error.h"
#include "ops/registry.h"
#include "python/bindings.h"
#include "python/nodes.h"

namespace tandem::python {

namespace {

namespace py = pybind11;

// Quotes the value of each attribute that is free text. Enumerators are not quoted.
ops::AttributeList as_written(const ops::OpSpec& spec, ops::AttributeList attributes) {
  for (auto& [name, value] : attributes) {
    const auto same = [&name = name](const auto& other) { return other.first == name; };
    const auto at = std::ranges::find_if(spec.attributes, same);
    const bool is_text = at != spec.attributes.end() && at->second.starts_with('"');
    if (is_text && !value.starts_with('"')) value = '"' + value + '"';
  }
  return attributes;
}

class Builder {
 public:
  explicit Builder(std::string name) : graph_(std::move(name)) {}

  NodeView add(const std::string& op, const std::vector<std::string>& inputs,
               const ops::AttributeList& attributes, const std::string& name) {
    const auto& spec = ops::find_op(op);
    std::vector<graph::NodeId> ids;
    ids.reserve(inputs.size());
    for (const auto& input : inputs) ids.push_back(find(input));
    const auto id = graph_.add(ops::parse_op(spec, as_written(spec, attributes)), ids, name);
    return make_node_view(graph_.node(id), inputs);
  }

  // Returns the graph built so far. More nodes can be added afterwards.
  graph::Graph finish(const std::vector<std::string>& outputs) const {
    std::vector<graph::NodeId> ids;
    ids.reserve(outputs.size());
    for (const auto& output : outputs) ids.push_back(find(output));
    auto copy = graph_;
    return copy.finish(std::move(ids));
  }

 private:
  graph::NodeId find(const std::string& name) const {
    const auto id = graph_.find(name);
    if (!id) throw UserError("graph", "%" + name, "is not a node of this graph");
    return *id;
  }

  graph::GraphBuilder graph_;
};

std::vector<std::string> operators() {
  std::vector<std::string> out;
  for (const auto* op : ops::all_ops()) out.push_back(op->name);
  return out;
}

}  // namespace

void bind_builder(py::module_& module) {
  module.def("operators", operators, "The names of all operators.");
  py::class_<Builder>(module, "Builder", "Implementation of tandem.GraphBuilder.")
      .def(py::init<std::string>(), py::arg("name"))
      .def("add", &Builder::add, py::arg("op"), py::arg("inputs"), py::arg("attributes"),
           py::arg("name"))
      .def("finish", &Builder::finish, py::arg("outputs"));
}

}  // namespace tandem::python

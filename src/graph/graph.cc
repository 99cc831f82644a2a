#include "graph/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "graph/hashes.h"
#include "graph/try_infer_type.h"
#include "ops/attributes.h"
#include "ops/registry.h"
#include "ops/sources.h"
#include "ops/task_grid.h"
#include "ops/trial.h"
#include "term/result_sizes.h"

namespace tandem::graph {

namespace {

std::string describe_node(const ops::Op& op, std::string_view name) {
  return fmt::format("{} %{}", op.name(), name);
}

}  // namespace

std::span<const NodeId> Graph::inputs(NodeId id) const {
  const auto& end = data_->inputs_end;
  const std::size_t begin = id.index() == 0 ? 0 : end[id.index() - 1];
  return std::span(data_->inputs).subspan(begin, end[id.index()] - begin);
}

std::vector<TensorType> Graph::input_types(NodeId id) const {
  std::vector<TensorType> types;
  for (auto i : inputs(id)) types.push_back(node(i).type);
  return types;
}

std::vector<std::vector<NodeId>> Graph::consumers() const {
  std::vector<std::vector<NodeId>> out(size());
  for (auto id : ids()) {
    for (auto i : inputs(id)) out[i.index()].push_back(id);
  }
  return out;
}

NodeId GraphBuilder::add(const ops::Op& op, std::span<const NodeId> inputs, std::string name) {
  if (name.empty()) {
    auto number = data_.nodes.size();
    do name = op.name() + std::to_string(number++);
    while (by_name_.contains(name));
  }
  check_new(op, name);
  try {
    auto type = infer_type(op, inputs);
    return append(std::make_shared<const Node>(Node{op, std::move(name), type}), inputs);
  } catch (const UserError& e) {
    throw UserError(e.kind, describe_node(op, name), e.message, e.hint);
  }
}

NodeId GraphBuilder::copy_node(const Graph& from, NodeId id, std::span<const NodeId> inputs) {
  const auto same_type = [&](NodeId here, NodeId there) {
    return node(here).type == from.node(there).type;
  };
  const Node& original = from.node(id);
  if (!std::ranges::equal(inputs, from.inputs(id), same_type)) {
    return add(original.op, inputs, original.name);
  }
  check_new(original.op, original.name);
  return append(from.data_->nodes[id.index()], inputs);
}

void GraphBuilder::check_new(const ops::Op& op, std::string_view name) const {
  if (data_.nodes.size() == kMaxNodes) {
    throw UserError("graph", describe_node(op, name),
                    fmt::format("a graph has at most {} nodes", kMaxNodes));
  }
  if (name.find_first_of(" \t\r\n%,()#:=\"{}") != std::string_view::npos) {
    throw UserError("graph", describe_node(op, name),
                    "node names must not contain blanks or any of % , ( ) # : = \" { }");
  }
  if (!is_utf8(name)) throw UserError("graph", op.name(), "node names must be valid UTF-8");
  if (by_name_.contains(name)) {
    throw UserError("graph", describe_node(op, name), "another node already has this name");
  }
}

NodeId GraphBuilder::append(std::shared_ptr<const Node> node, std::span<const NodeId> inputs) {
  const NodeId id(data_.nodes.size());
  by_name_.emplace(node->name, id);
  data_.inputs.insert(data_.inputs.end(), inputs.begin(), inputs.end());
  data_.inputs_end.push_back(static_cast<std::uint32_t>(data_.inputs.size()));
  data_.nodes.push_back(std::move(node));
  return id;
}

NodeId GraphBuilder::input(std::string name, const ParallelShape& shape, DType dtype,
                           std::int64_t below) {
  return add(ops::make_op(ops::kInput, ops::Input{shape, dtype, below}), {}, std::move(name));
}

NodeId GraphBuilder::weight(std::string name, const ParallelShape& shape, DType dtype) {
  return add(ops::make_op(ops::kWeight, ops::Weight{shape, dtype}), {}, std::move(name));
}

std::optional<NodeId> GraphBuilder::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  if (at == by_name_.end()) return std::nullopt;
  return at->second;
}

Graph GraphBuilder::finish(std::vector<NodeId> outputs) {
  data_.outputs = std::move(outputs);
  by_name_.clear();
  auto data = std::make_shared<Graph::Data>(std::move(data_));
  data->identity = hash_graph(Graph(data), HashKind::kIdentity);
  data->shape = hash_graph(Graph(data), HashKind::kShape);
  return Graph(std::move(data));
}

TensorType GraphBuilder::infer_type(const ops::Op& op, std::span<const NodeId> inputs) const {
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (auto i : inputs) types.push_back(node(i).type);
  return infer_result_type(op, types);
}

namespace {

// Returns the dtype that the operands share, apart from indices. Integers are allowed exactly where
// the operator wants indices.
DType find_common_dtype(const ops::Op& op, std::span<const TensorType> inputs) {
  std::optional<DType> common;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto dtype = inputs[i].dtype;
    const bool wants_index = ((op.spec().index_inputs >> i) & 1U) != 0;
    if (is_integer(dtype) != wants_index) {
      throw UserError("graph", "",
                      fmt::format("input {} is {}, but must be {}", i, name(dtype),
                                  wants_index ? "int32 or int64" : "a real type"));
    }
    if (wants_index) continue;
    if (common && *common != dtype) {
      throw UserError(
          "graph", "",
          fmt::format("input {} is {}, but an earlier input is {}", i, name(dtype), name(*common)));
    }
    common = dtype;
  }
  return common.value_or(DType::kFp32);
}

}  // namespace

namespace {

// Keeps products of sizes and of degrees far from overflow.
void check_size(const TensorType& type) {
  double elements = 1;
  double devices =
      static_cast<double>(type.shape.replicas) * static_cast<double>(type.shape.partial);
  for (std::size_t d = 0; d < type.shape.rank(); ++d) {
    elements *= static_cast<double>(type.shape.sizes[d]);
    devices *= static_cast<double>(type.shape.degrees[d]);
  }
  if (elements > 0x1p50) {
    throw UserError("graph", "",
                    fmt::format("{} has more than 2^50 elements", to_text(type.shape)));
  }
  if (devices > 0x1p30) {
    throw UserError("graph", "",
                    fmt::format("{} needs more than 2^30 devices", to_text(type.shape)));
  }
}

double infer_density(const ops::Op& op, const ops::Signature& s,
                     std::span<const TensorType> inputs) {
  if (const auto stated = op.spec().density(op.raw())) return *stated;
  if (std::ranges::all_of(inputs, [](const auto& t) { return t.density == 1; })) return 1;
  std::vector<double> densities;
  for (const auto& t : inputs) densities.push_back(t.density);
  return term::compute_density(s.meaning, densities);
}

std::vector<Shape> get_sizes(std::span<const TensorType> inputs) {
  std::vector<Shape> out;
  out.reserve(inputs.size());
  for (const auto& t : inputs) out.push_back(t.shape.sizes);
  return out;
}

std::vector<ParallelShape> get_shapes(std::span<const TensorType> inputs) {
  std::vector<ParallelShape> out;
  out.reserve(inputs.size());
  for (const auto& t : inputs) out.push_back(t.shape);
  return out;
}

TensorType infer_type_on(const ops::TaskGrid& grid, const ops::Op& op, const ops::Signature& s,
                         std::span<const TensorType> inputs) {
  return {ops::compute_output_shape(s, grid),
          op.spec().dtype(op.raw()).value_or(find_common_dtype(op, inputs)),
          infer_density(op, s, inputs)};
}

TensorType infer_unchecked_type(const ops::Op& op, std::span<const TensorType> inputs) {
  if (op.role() == ops::Role::kSource && !inputs.empty()) {
    throw UserError("graph", "", fmt::format("takes 0 inputs, but has {}", inputs.size()));
  }
  if (op.spec().type) return op.spec().type(op.raw(), inputs);
  const auto& s = ops::get_signature(op, get_sizes(inputs));
  return infer_type_on(ops::infer_grid(s, get_shapes(inputs)), op, s, inputs);
}

}  // namespace

TensorType infer_result_type(const ops::Op& op, std::span<const TensorType> inputs) {
  auto type = infer_unchecked_type(op, inputs);
  check_size(type);
  return type;
}

std::optional<TensorType> try_infer_type(const ops::Op& op, std::span<const TensorType> inputs) {
  if (op.role() != ops::Role::kCompute || op.spec().type) return infer_result_type(op, inputs);
  const auto sizes = get_sizes(inputs);
  const bool plain = std::ranges::all_of(
      inputs, [](const auto& t) { return t.shape.is_undivided() && t.density == 1; });
  if (!plain || op.spec().density(op.raw())) {
    const auto& s = ops::get_signature(op, sizes);
    const auto grid = ops::try_infer_grid(s, get_shapes(inputs));
    if (!grid) return std::nullopt;
    const auto type = infer_type_on(*grid, op, s, inputs);
    check_size(type);
    return type;
  }
  const ops::Trial trial;
  const auto text = op.spec().index_text(op.raw(), sizes);
  if (text.empty()) return std::nullopt;
  const auto out = term::compute_result_sizes(text, sizes);
  if (!out) return std::nullopt;
  const TensorType type{ParallelShape(*out),
                        op.spec().dtype(op.raw()).value_or(find_common_dtype(op, inputs))};
  check_size(type);
  return type;
}

const ops::Signature& get_node_signature(const Graph& graph, NodeId id) {
  std::vector<Shape> sizes;
  sizes.reserve(graph.inputs(id).size());
  for (auto i : graph.inputs(id)) sizes.push_back(graph.node(i).type.shape.sizes);
  return ops::get_signature(graph.node(id).op, sizes);
}

std::vector<bool> mark_gradient_nodes(const Graph& graph) {
  std::vector<bool> out(graph.size());
  for (auto id : graph.ids()) {
    const auto inputs = graph.inputs(id);
    out[id.index()] = is_trained(graph.node(id)) ||
                      std::ranges::any_of(inputs, [&](NodeId i) { return out[i.index()]; });
  }
  return out;
}

bool is_weight(const Node& node) { return node.op.is(ops::kWeight); }
bool is_trained(const Node& node) { return is_weight(node) && !node.op.get<ops::Weight>().frozen; }
bool is_input(const Node& node) { return node.op.is(ops::kInput); }
bool is_parallel(const Node& node) { return node.op.role() == ops::Role::kParallel; }
bool is_join(const Node& node) { return node.op.role() == ops::Role::kJoin; }

namespace {

NodeId add_sum(GraphBuilder& builder, std::span<const NodeId> terms, const std::string& name) {
  NodeId sum = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) {
    const bool last = i + 1 == terms.size();
    sum = builder.add(ops::kAdd, {sum, terms[i]}, last ? name : fmt::format("{}.{}", name, i));
  }
  return sum;
}

}  // namespace

Graph erase_parallelism(const Graph& pcg) {
  GraphBuilder builder(pcg.name());
  std::vector<NodeId> image(pcg.size());
  for (auto id : pcg.ids()) {
    const Node& node = pcg.node(id);
    std::vector<NodeId> inputs;
    for (auto i : pcg.inputs(id)) inputs.push_back(image[i.index()]);
    if (is_parallel(node)) {
      image[id.index()] = inputs[0];
    } else if (is_join(node)) {
      image[id.index()] = add_sum(builder, inputs, node.name);
    } else if (node.op.role() == ops::Role::kSource && !node.type.shape.is_undivided()) {
      const ParallelShape whole(node.type.shape.sizes);
      image[id.index()] = builder.add(ops::with_shape(node.op, whole), {}, node.name);
    } else {
      image[id.index()] = builder.copy_node(pcg, id, inputs);
    }
  }
  std::vector<NodeId> outputs;
  for (auto o : pcg.outputs()) outputs.push_back(image[o.index()]);
  return builder.finish(std::move(outputs));
}

}  // namespace tandem::graph

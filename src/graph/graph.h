// Graphs: immutable values, cheap to copy. A node applies an operator to earlier nodes and has one
// tensor; inputs and weights are nodes too. Nodes stand in topological order.
//
// A graph that is made from another one shares the nodes that it keeps (GraphBuilder::keep): what
// differs between the two is stored twice, and who uses whom.
//
// A graph in which tensors have degrees, replicas or partial sums is a parallel computation graph
// (PCG); it is the same type, and legal by the same check. Text form: graph/text.h.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "ops/op.h"
#include "ops/signature.h"
#include "tensor/tensor_type.h"

namespace tandem::graph {

using NodeId = Id<struct NodeTag>;

struct Node {
  ops::Op op;
  std::string name;
  TensorType type;
};

class Graph {
 public:
  Graph() : data_(std::make_shared<const Data>()) {}

  [[nodiscard]] const std::string& name() const { return data_->name; }
  [[nodiscard]] std::size_t size() const { return data_->nodes.size(); }
  [[nodiscard]] const Node& node(NodeId id) const { return *data_->nodes[id.index()]; }
  [[nodiscard]] std::span<const NodeId> inputs(NodeId id) const;
  [[nodiscard]] const std::vector<NodeId>& outputs() const { return data_->outputs; }
  [[nodiscard]] std::vector<TensorType> input_types(NodeId id) const;

  // Every node id in topological order, for range-for.
  [[nodiscard]] IdRange<NodeId> ids() const { return IdRange<NodeId>(size()); }
  // By node, the nodes that use it, in order.
  [[nodiscard]] std::vector<std::vector<NodeId>> consumers() const;

  // Equal under renaming of everything but inputs and weights, and under reordering of independent
  // nodes. Says that two graphs are the same program on the same weights.
  [[nodiscard]] Hash identity_hash() const { return data_->identity; }
  // Also equal under renaming inputs and weights: the same structure and shapes.
  [[nodiscard]] Hash shape_hash() const { return data_->shape; }

 private:
  friend class GraphBuilder;
  struct Data {
    std::string name;
    std::vector<std::shared_ptr<const Node>> nodes;  // shared between graphs
    std::vector<NodeId> inputs;                      // of all nodes, one after another
    std::vector<std::uint32_t> inputs_end;           // by node, where its inputs end
    std::vector<NodeId> outputs;
    Hash identity = 0;
    Hash shape = 0;
  };
  explicit Graph(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

// Builds a graph node by node, checking each one: a graph that exists is legal.
class GraphBuilder {
 public:
  static constexpr std::size_t kMaxNodes = std::size_t{1} << 20U;

  explicit GraphBuilder(std::string name) { data_.name = std::move(name); }

  // Throws UserError naming the node: `matmul %7: index 'k' is 64 in input 0 and 63 in input 1`.
  // An empty name becomes "<operator><number>".
  NodeId add(const ops::Op& op, std::span<const NodeId> inputs, std::string name = "");
  NodeId add(const ops::Op& op, std::initializer_list<NodeId> inputs, std::string name = "") {
    return add(op, std::span(inputs.begin(), inputs.size()), std::move(name));
  }
  // With the default attributes.
  NodeId add(const ops::OpSpec& spec, std::initializer_list<NodeId> inputs, std::string name = "") {
    return add(ops::parse_op(spec, {}), inputs, std::move(name));
  }
  NodeId input(std::string name, const ParallelShape& shape, DType dtype, std::int64_t below = 0);
  NodeId weight(std::string name, const ParallelShape& shape, DType dtype);
  // Node `id` of another graph, applied to `inputs` of this one. It is shared, and not checked
  // again, where their types are those it has there; else it is as if added anew.
  NodeId keep(const Graph& from, NodeId id, std::span<const NodeId> inputs);

  [[nodiscard]] const Node& node(NodeId id) const { return *data_.nodes[id.index()]; }
  [[nodiscard]] std::size_t size() const { return data_.nodes.size(); }
  [[nodiscard]] std::optional<NodeId> find(std::string_view name) const;

  Graph finish(std::vector<NodeId> outputs);

 private:
  void check_new(const ops::Op& op, std::string_view name) const;
  TensorType infer_type(const ops::Op& op, std::span<const NodeId> inputs) const;
  NodeId append(std::shared_ptr<const Node> node, std::span<const NodeId> inputs);

  Graph::Data data_;
  std::unordered_map<std::string_view, NodeId> by_name_;  // the keys are the nodes' own names
};

// The type of an operator's result. Throws UserError without a place.
TensorType result_type(const ops::Op& op, std::span<const TensorType> inputs);

// Of a compute node, on its operands' global sizes.
const ops::Signature& signature_of(const Graph& graph, NodeId id);

// Does training need a gradient of this node's tensor? True where a weight that is
// trained feeds it.
std::vector<bool> needs_gradient(const Graph& graph);

bool is_weight(const Node& node);
bool is_trained(const Node& node);  // a weight that is not frozen
bool is_input(const Node& node);
bool is_parallel(const Node& node);
bool is_join(const Node& node);

// The graph without its parallelization operators, every tensor whole: what a PCG computes. A join
// is an addition there; of more than two tensors, several, named %join.1, %join.2, ..., %join.
Graph erase_parallelism(const Graph& pcg);

}  // namespace tandem::graph

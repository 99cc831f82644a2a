// Graphs: immutable values, cheap to copy. A node applies an operator to earlier nodes and has one
// tensor; inputs and weights are nodes too. Nodes are in topological order.
//
// A graph that is derived from another one shares the unchanged nodes (GraphBuilder::copy_node).
// Only nodes that differ and the lists of inputs are stored twice.
//
// A graph whose tensors have degrees, replicas or partial sums is a parallel computation graph
// (PCG). It has the same type and passes the same check. graph/text.h defines the text form.
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

  // Returns every node id in topological order, for range-for.
  [[nodiscard]] IdRange<NodeId> ids() const { return IdRange<NodeId>(size()); }
  // Returns for each node the nodes that use it, in order.
  [[nodiscard]] std::vector<std::vector<NodeId>> consumers() const;

  // Returns a hash of the program on its weights. It is equal for graphs that differ in the order
  // of independent nodes, or in names other than those of inputs and weights.
  [[nodiscard]] Hash identity_hash() const { return data_->identity; }
  // Returns a hash of structure and shapes; it also ignores the names of inputs and weights.
  [[nodiscard]] Hash shape_hash() const { return data_->shape; }

 private:
  friend class GraphBuilder;
  struct Data {
    std::string name;
    std::vector<std::shared_ptr<const Node>> nodes;  // shared between graphs
    std::vector<NodeId> inputs;                      // inputs of all nodes, concatenated
    std::vector<std::uint32_t> inputs_end;           // for each node, the end of its inputs
    std::vector<NodeId> outputs;
    Hash identity = 0;
    Hash shape = 0;
  };
  explicit Graph(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

// Builds a graph node by node and checks each node, so every existing graph is legal.
class GraphBuilder {
 public:
  static constexpr std::size_t kMaxNodes = std::size_t{1} << 20U;

  explicit GraphBuilder(std::string name) { data_.name = std::move(name); }

  // Adds a node and returns its id. An empty name becomes "<operator><number>". Throws UserError
  // that names the node: `matmul %7: index 'k' is 64 in input 0 and 63 in input 1`.
  NodeId add(const ops::Op& op, std::span<const NodeId> inputs, std::string name = "");
  NodeId add(const ops::Op& op, std::initializer_list<NodeId> inputs, std::string name = "") {
    return add(op, std::span(inputs.begin(), inputs.size()), std::move(name));
  }
  // Adds a node with the operator's default attributes.
  NodeId add(const ops::OpSpec& spec, std::initializer_list<NodeId> inputs, std::string name = "") {
    return add(ops::parse_op(spec, {}), inputs, std::move(name));
  }
  NodeId input(std::string name, const ParallelShape& shape, DType dtype, std::int64_t below = 0);
  NodeId weight(std::string name, const ParallelShape& shape, DType dtype);
  // Adds node `id` of `from`, applied to `inputs` of this graph. If the input types are the same,
  // the node is shared and not checked again; otherwise this is like add().
  NodeId copy_node(const Graph& from, NodeId id, std::span<const NodeId> inputs);

  [[nodiscard]] const Node& node(NodeId id) const { return *data_.nodes[id.index()]; }
  [[nodiscard]] std::size_t size() const { return data_.nodes.size(); }
  [[nodiscard]] std::optional<NodeId> find(std::string_view name) const;

  Graph finish(std::vector<NodeId> outputs);

 private:
  void check_new(const ops::Op& op, std::string_view name) const;
  TensorType infer_type(const ops::Op& op, std::span<const NodeId> inputs) const;
  NodeId append(std::shared_ptr<const Node> node, std::span<const NodeId> inputs);

  Graph::Data data_;
  std::unordered_map<std::string_view, NodeId> by_name_;  // keys are the nodes' own names
};

// Returns the type of an operator's result. Throws UserError without a place.
TensorType infer_result_type(const ops::Op& op, std::span<const TensorType> inputs);

// Returns the signature of a compute node on its operands' global sizes.
const ops::Signature& get_node_signature(const Graph& graph, NodeId id);

// Returns for each node whether training needs a gradient of its tensor: a trained weight feeds it.
std::vector<bool> mark_gradient_nodes(const Graph& graph);

bool is_weight(const Node& node);
bool is_trained(const Node& node);  // a weight that is not frozen
bool is_input(const Node& node);
bool is_parallel(const Node& node);
bool is_join(const Node& node);

// Returns what a PCG computes: the graph without parallelization operators, every tensor whole. A
// join becomes an addition; a join of more than two tensors becomes several: %join.1, %join.2, ...,
// %join.
Graph erase_parallelism(const Graph& pcg);

}  // namespace tandem::graph

// Data of an import in progress, as converters see it: the tensors of the file, and one node of it.
#pragma once

#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"
#include "import/known_tensor.h"
#include "import/onnx.h"
#include "import/records.h"
#include "import/scope.h"

namespace tandem::import {

using graph::NodeId;

// Returns `name` in single quotes.
std::string quote(std::string_view name);
// Throws UserError if a tensor of the graph cannot have as many dimensions.
void check_rank(const Sizes& sizes, std::string_view what);

// One tensor of the file. Most members are filled on demand: a weight becomes a node when a node
// uses it, and contents are read when a shape depends on them.
struct Value {
  std::int32_t type = 0;  // ElementType
  Sizes sizes = {};
  std::optional<NodeId> node = {};  // node of the graph
  KnownPtr known = {};              // contents, if known
  std::string_view stored = {};     // message of the initializer
  std::optional<double> fill = {};  // value of every element; `known` may be too large to build
  bool data = false;        // stored in the file, not computed: a floating-point tensor is a weight
  bool untrained = false;   // never trained: frequencies, masks
  bool from_whole = false;  // computed from integers and constants only
  bool input = false;       // floating-point input of the graph

  std::string_view tied = {};  // another tensor, whose weight or input this is

  // Name of an integer input of the graph, and the operators that moved its elements since. The
  // value becomes a node where it is used: an input of indices or of floating-point numbers.
  std::string_view fed = {};
  std::vector<ops::Op> moves = {};

  // Attention scores under a causal mask, which a softmax represents as an attribute. Older
  // networks first multiply scores by the mask, which changes only the hidden scores.
  std::optional<NodeId> scores = {};
  KnownPtr mask = {};
  bool times_mask = false;

  std::string_view origin = {};  // tensor of the file that holds the data

  std::string unusable = {};  // reason why no node may use it; empty if nodes may
};

class OnnxCall;

// Imports one file: reads its inputs and initializers, then converts its nodes in order.
class Importer {
 public:
  Importer(std::string_view file, const std::string& source, const OnnxOptions& options);
  OnnxModel run();

 private:
  friend class OnnxCall;

  void read_inputs();
  void check_dims(const std::vector<ValueInfo>& infos) const;
  void read_initializers(const ModelProto& graph);
  void read_input(const ValueInfo& info, bool first);
  void convert(NodeProto node);
  void convert_known(OnnxCall& call, const NodeProto& node);
  void convert_nodes(std::span<const std::string_view> nodes);
  void convert_all(const ModelProto& graph);
  const FunctionProto* find_function(const NodeProto& node);
  void call_function(const NodeProto& call, const FunctionProto& function);
  // Returns a unique name for the output `given` of a node inside a function or a branch.
  std::string_view declare(std::string_view given);
  void define(std::string_view name, Value value);
  std::vector<NodeId> collect_outputs();
  graph::Graph finish(std::vector<NodeId> outputs);
  NodeId append_loss(NodeId output);
  [[noreturn]] void fail(const std::string& where, const UserError& e) const;

  // Each of these returns the node that represents a value as an operand, and adds it if necessary.
  NodeId tensor(std::string_view name, Value& v, bool trained);
  NodeId index(Value& v, std::int64_t below);
  NodeId real_input(Value& v, DType dtype);
  NodeId add_masked_scores(std::string_view name, Value& v);
  NodeId add_source(std::string_view name, const Known& k, DType dtype);
  NodeId add_weight(std::string_view name, const Value& v, DType dtype);
  NodeId add_input(std::string_view name, const Sizes& sizes, DType dtype, std::int64_t below = 0);
  KnownPtr known(Value& v);
  void charge(std::int64_t elements);

  // Returns a name for the graph: `name` without the characters that graph text cannot hold, and
  // with a number if it is taken.
  std::string free_name(std::string_view name);
  NodeId add(const ops::Op& op, std::span<const NodeId> inputs, std::string_view name);
  Value make_value(NodeId id) const;

  std::string_view file_;
  std::string source_;
  OnnxOptions options_;
  ModelProto model_;
  graph::GraphBuilder builder_;
  std::unordered_map<std::string_view, Value> values_;
  std::unordered_map<std::string_view, std::int32_t> input_types_;
  OnnxModel out_;
  std::int64_t known_elements_ = 0;
  std::int64_t dropouts_ = 0;
  int depth_ = 0;                      // nesting depth of graphs inside nodes
  bool added_node_ = false;            // whether the current node added a node to the graph
  Scope* scope_ = nullptr;             // scope of the current function or branch
  std::deque<std::string> own_names_;  // names that the file does not have
  std::int64_t next_own_ = 2;
  std::unordered_map<std::string, int> next_number_;  // next number for each name that is taken
  std::unordered_map<std::string, FunctionProto> functions_;  // by domain, operator and overload
  std::int64_t inner_nodes_ = 0;                      // number of nodes inlined from functions
  std::int64_t opset_ = 1;                            // opset of the nodes being converted
  std::unordered_set<std::string_view> frequencies_;  // initializers that are frequencies
  std::unordered_set<std::string_view> derived_;      // integer tensors that became inputs
  std::map<std::string, std::string_view> derived_before_;  // by the expression that computes them
  bool has_batch_name_ = false;  // whether a dimension of an input is called batch
  std::int64_t file_batch_ = 0;  // batch size of the file if options_.batch replaces it; else 0

  // Bounds of index inputs: the rows of the smallest table that they index. If a later use has a
  // smaller bound, `needs_reimport_` is set and the file is imported again.
  std::map<std::string, std::int64_t> below_;
  std::map<std::string, NodeId> index_inputs_;
  std::map<std::pair<std::string, DType>, NodeId> real_inputs_;
  bool needs_reimport_ = false;
  friend OnnxModel import_onnx(std::string_view, const std::string&, const OnnxOptions&);
};

// One node of the file, as its converter sees it.
class OnnxCall {
 public:
  OnnxCall(Importer& importer, const NodeProto& node) : importer_(importer), node_(node) {}

  [[nodiscard]] std::string_view op() const { return node_.op; }
  [[nodiscard]] bool is_microsoft() const { return node_.domain == "com.microsoft"; }
  [[nodiscard]] std::int64_t opset() const;

  // Attributes. The converter must ask for every attribute of the node: an unread one is an error,
  // because it would change the result.
  const Attribute* attribute(std::string_view name);
  std::int64_t integer(std::string_view name, std::int64_t otherwise);
  double real(std::string_view name, double otherwise);
  std::string text(std::string_view name, const std::string& otherwise);
  std::optional<Sizes> integers(std::string_view name);
  void check_attributes() const;

  // Operands. `i` is the number of an input.
  [[nodiscard]] std::size_t inputs() const { return node_.inputs.size(); }
  [[nodiscard]] bool has(std::size_t i) const {
    return i < node_.inputs.size() && !node_.inputs[i].empty();
  }
  Value& value(std::size_t i);
  const Sizes& sizes(std::size_t i) { return value(i).sizes; }
  std::size_t rank(std::size_t i) { return sizes(i).size(); }
  // Returns dimension `axis`, where -1 is the last. Throws UserError if it is out of range.
  std::size_t axis(std::int64_t axis, std::size_t rank) const;
  NodeId tensor(std::size_t i);  // floating point; constants of the file are not trained
  NodeId weight(std::size_t i);  // constants of the file and inputs of the graph are trained
  NodeId factor(std::size_t i);  // constants of the file are trained
  NodeId index(std::size_t i, std::int64_t below);
  NodeId real_input(std::size_t i, DType dtype);
  NodeId constant(const Known& k, DType dtype);
  NodeId fixed_index(const Known& k, std::int64_t below);
  NodeId scalar(double value, DType dtype);
  // Returns the contents of operand `i`, or null if they are computed or belong to a weight.
  // contents() reads weights too.
  KnownPtr known(std::size_t i);
  // Returns whether known() would return contents, without reading them.
  bool is_known(std::size_t i);
  KnownPtr contents(std::size_t i);
  Sizes known_integers(std::size_t i, std::string_view what);
  std::optional<double> known_scalar(std::size_t i);
  // Returns the value of a scalar operand that cannot be a weight, whatever its number of
  // dimensions.
  std::optional<double> scalar_contents(std::size_t i);
  // Returns a list that is an attribute in earlier opsets and an input in later ones.
  std::optional<Sizes> integers_or_input(std::string_view name, std::size_t i);

  // Results. `i` is the number of an output.
  [[nodiscard]] std::size_t outputs() const { return node_.outputs.size(); }
  [[nodiscard]] bool wants(std::size_t i) const {
    return i < node_.outputs.size() && !node_.outputs[i].empty();
  }
  [[nodiscard]] DType dtype(NodeId id) const;
  [[nodiscard]] Sizes node_sizes(NodeId id) const;
  NodeId add(const ops::Op& op, std::span<const NodeId> inputs);  // an intermediate node
  NodeId add(const ops::Op& op, std::initializer_list<NodeId> inputs) {
    return add(op, std::span(inputs.begin(), inputs.size()));
  }
  NodeId add(const ops::OpSpec& spec, std::initializer_list<NodeId> inputs) {
    return add(ops::parse_op(spec, {}), inputs);
  }
  void set_result(const ops::Op& op, std::span<const NodeId> inputs, std::size_t i = 0);
  void set_result(const ops::Op& op, std::initializer_list<NodeId> inputs, std::size_t i = 0) {
    set_result(op, std::span(inputs.begin(), inputs.size()), i);
  }
  void set_result(const ops::OpSpec& spec, std::initializer_list<NodeId> inputs,
                  std::size_t i = 0) {
    set_result(ops::parse_op(spec, {}), inputs, i);
  }
  void set_result(Value value, std::size_t i = 0);
  void set_result(Known known);
  // Defines an output as another name of an input.
  void alias_input(std::size_t output = 0, std::size_t input = 0);
  // Marks an output that no node may use, such as the indices of a pooling.
  void mark_unusable(std::size_t i, const std::string& why);
  // Applies to an input an operator that moves elements and computes nothing.
  void apply_move(const ops::Op& op, std::size_t input = 0, std::size_t output = 0);
  // Returns the integer input `fed` after the operator `op`.
  Value move_fed_input(const Value& fed, const ops::Op& op) const;
  // Returns a node with the same elements in another shape. Reshapes in two steps if the dimensions
  // do not nest.
  NodeId add_reshape(NodeId id, const Sizes& sizes);
  void reshape(const Sizes& sizes, std::size_t output = 0);
  // Defines the result as a new integer input of the graph: it is computed from integer inputs,
  // outside the graph.
  void set_derived_input(std::int32_t type, Sizes sizes);
  // Returns a text of the expression that computes the result; empty if it has no short form.
  std::string make_derived_key();
  // Defines the result as the scores of operand `i` under the causal mask `mask`.
  void set_masked_scores(std::size_t i, KnownPtr mask, bool times_mask = false);
  // Converts the nodes of a graph inside this node in its place. The outputs of the graph become
  // those of the node.
  void inline_graph(std::string_view message);
  void charge(std::int64_t elements);
  // Marks the results that are computed from integers and constants only.
  void note_from_whole();
  std::int64_t next_dropout();
  [[nodiscard]] std::int64_t file_batch() const { return importer_.file_batch_; }
  [[nodiscard]] std::int64_t batch() const { return importer_.out_.batch; }

 private:
  Importer& importer_;
  const NodeProto& node_;
  std::vector<std::string_view> asked_;
};

// --- Tables of converters -----------------------------------------------------------------------

using Converter = void (*)(OnnxCall&);

// Returns the operator that moves rows of `width` elements as `op` moves the integers that index
// them.
ops::Op make_row_move(const ops::Op& op, std::int64_t width);

// Returns whether `spec` is an elementwise operator without attributes. Such an operator names its
// ONNX operator itself and needs no converter.
bool is_plain_operator(const ops::OpSpec* spec);

// Returns all converters by ONNX operator.
const std::map<std::string_view, Converter>& converters();

// Computes the result if all operands are known. Returns false if the operator is not foldable or
// an operand is computed. Some converters fold whatever their operands are: Shape.
bool fold(OnnxCall& call);
std::vector<std::string_view> list_foldable_operators();
Known cast_known(const Known& k, std::int32_t type);
Sizes broadcast_sizes(const Sizes& a, const Sizes& b);

// Replaces the result by an input of the graph if it is computed from integer inputs. Returns false
// otherwise.
bool derive(OnnxCall& call);

// Converters of one file each; converters() joins them.
using ConverterList = std::vector<std::pair<std::string_view, Converter>>;
ConverterList elementwise_converters();
ConverterList image_converters();
ConverterList matrix_converters();
ConverterList parts_converters();
ConverterList shape_converters();

}  // namespace tandem::import

// What converters work with: the tensors of a file while it is imported, and one node of it.
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
#include "import/known.h"
#include "import/onnx.h"
#include "import/records.h"
#include "import/scope.h"

namespace tandem::import {

using graph::NodeId;

std::string quoted(std::string_view name);
// Throws where a tensor of the graph cannot have as many dimensions.
void check_rank(const Sizes& sizes, std::string_view what);

// One tensor of the file. Most things are made on demand: a weight becomes a node when a node uses
// it, contents are read when a shape depends on them.
struct Value {
  std::int32_t type = 0;  // ElementType
  Sizes sizes = {};
  std::optional<NodeId> node = {};  // in the graph
  KnownPtr known = {};              // contents
  std::string_view stored = {};     // an initializer's message
  std::optional<double> fill = {};  // every element is this; `known` may be too large to be made
  bool data = false;                // written in the file, not computed: a weight where it is real
  bool untrained = false;           // ... nowhere: frequencies, masks
  bool from_whole = false;          // computed from whole numbers and constants only
  bool input = false;               // of the graph, of real numbers

  std::string_view tied = {};  // another tensor, whose weight or input this is

  // A graph input of whole numbers, and what has moved its elements since. It becomes a node where
  // it is used: of indices, or of real numbers.
  std::string_view fed = {};
  std::vector<ops::Op> moves = {};

  // Scores under a causal mask, which a softmax takes in as an attribute. Older networks multiply
  // them by the mask first, which changes only what it hides.
  std::optional<NodeId> scores = {};
  KnownPtr mask = {};
  bool times_mask = false;

  std::string_view origin = {};  // the tensor of the file that holds the data

  std::string unusable = {};  // why, if it is
};

class Call;

class Importer {
 public:
  Importer(std::string_view file, const std::string& source, const OnnxOptions& options);
  OnnxModel run();

 private:
  friend class Call;

  void read_inputs();
  void check_dims(const std::vector<ValueInfo>& infos) const;
  void read_initializers(const Model& graph);
  void read_input(const ValueInfo& info, bool first);
  void convert(Node node);
  void convert_known(Call& call, const Node& node);
  void convert_nodes(std::span<const std::string_view> nodes);
  void convert_all(const Model& graph);
  const Function* find_function(const Node& node);
  void call_function(const Node& call, const Function& function);
  // A name for what a node inside a function or a branch makes.
  std::string_view declare(std::string_view given);
  void define(std::string_view name, Value value);
  std::vector<NodeId> outputs();
  graph::Graph finish(std::vector<NodeId> outputs);
  NodeId append_loss(NodeId output);
  [[noreturn]] void fail(const std::string& where, const UserError& e) const;

  // What a value is as an operand.
  NodeId tensor(std::string_view name, Value& v, bool trained);
  NodeId index(Value& v, std::int64_t below);
  NodeId real_input(Value& v, DType dtype);
  NodeId masked(std::string_view name, Value& v);
  NodeId source_of(std::string_view name, const Known& k, DType dtype);
  NodeId weight(std::string_view name, const Value& v, DType dtype);
  NodeId input(std::string_view name, const Sizes& sizes, DType dtype, std::int64_t below = 0);
  KnownPtr known(Value& v);
  void charge(std::int64_t elements);

  // A name of the file as one of the graph: unused, and without what its text cannot hold.
  std::string free_name(std::string_view name);
  NodeId add(const ops::Op& op, std::span<const NodeId> inputs, std::string_view name);
  Value value_of(NodeId id) const;

  std::string_view file_;
  std::string source_;
  OnnxOptions options_;
  Model model_;
  graph::GraphBuilder builder_;
  std::unordered_map<std::string_view, Value> values_;
  std::unordered_map<std::string_view, std::int32_t> input_types_;
  OnnxModel out_;
  std::int64_t known_elements_ = 0;
  std::int64_t dropouts_ = 0;
  int depth_ = 0;                      // of graphs inside nodes
  bool made_node_ = false;             // by the node being converted
  Scope* scope_ = nullptr;             // of the function or branch being converted
  std::deque<std::string> own_names_;  // that the file has not
  std::int64_t next_own_ = 2;
  std::unordered_map<std::string, int> next_number_;     // of names that are taken
  std::unordered_map<std::string, Function> functions_;  // by their operator
  std::int64_t inner_nodes_ = 0;                         // of functions
  std::int64_t opset_ = 1;                               // of the nodes being converted
  std::unordered_set<std::string_view> frequencies_;     // initializers
  std::unordered_set<std::string_view> derived_;         // tensors of whole numbers that are inputs
  std::map<std::string, std::string_view> derived_before_;  // by what they are computed from
  bool has_batch_name_ = false;  // is some dimension of an input called batch?
  std::int64_t file_batch_ = 0;  // that the file fixes and options_.batch replaces; else 0

  // Indices are below the rows of the smallest table that they name; that of a second use may be
  // smaller, and then the file is read again.
  std::map<std::string, std::int64_t> below_;
  std::map<std::string, NodeId> index_inputs_;
  std::map<std::pair<std::string, DType>, NodeId> real_inputs_;
  bool again_ = false;
  friend OnnxModel import_onnx(std::string_view, const std::string&, const OnnxOptions&);
};

// One node of the file, as its converter sees it.
class Call {
 public:
  Call(Importer& importer, const Node& node) : importer_(importer), node_(node) {}

  [[nodiscard]] std::string_view op() const { return node_.op; }
  [[nodiscard]] bool is_microsoft() const { return node_.domain == "com.microsoft"; }
  [[nodiscard]] std::int64_t opset() const;

  // Attributes. One that no converter asks for is an error: it would change the result.
  const Attribute* attribute(std::string_view name);
  std::int64_t integer(std::string_view name, std::int64_t otherwise);
  double real(std::string_view name, double otherwise);
  std::string text(std::string_view name, const std::string& otherwise);
  std::optional<Sizes> integers(std::string_view name);
  void check_attributes() const;

  // Operands.
  [[nodiscard]] std::size_t inputs() const { return node_.inputs.size(); }
  [[nodiscard]] bool has(std::size_t i) const {
    return i < node_.inputs.size() && !node_.inputs[i].empty();
  }
  Value& value(std::size_t i);
  const Sizes& sizes(std::size_t i) { return value(i).sizes; }
  std::size_t rank(std::size_t i) { return sizes(i).size(); }
  // -1 is the last dimension; one that is not there is an error.
  std::size_t axis(std::int64_t axis, std::size_t rank) const;
  NodeId tensor(std::size_t i);  // real numbers; constants of the file are not trained
  NodeId weight(std::size_t i);  // constants of the file, and inputs of the graph, are trained
  NodeId factor(std::size_t i);  // constants of the file are trained
  NodeId index(std::size_t i, std::int64_t below);
  NodeId real_input(std::size_t i, DType dtype);
  NodeId constant(const Known& k, DType dtype);
  NodeId fixed_index(const Known& k, std::int64_t below);
  NodeId scalar(double value, DType dtype);
  // Null where the contents are computed, or a weight's: contents() reads those, too.
  KnownPtr known(std::size_t i);
  // Would known() give contents? Reads none.
  bool is_known(std::size_t i);
  KnownPtr contents(std::size_t i);
  Sizes known_integers(std::size_t i, std::string_view what);
  std::optional<double> known_scalar(std::size_t i);
  // The same where the operand cannot be a weight, in however many dimensions it is written.
  std::optional<double> scalar_contents(std::size_t i);
  // Of an attribute, or of an input in later opsets.
  std::optional<Sizes> integers_or_input(std::string_view name, std::size_t i);

  // Results.
  [[nodiscard]] std::size_t outputs() const { return node_.outputs.size(); }
  [[nodiscard]] bool wants(std::size_t i) const {
    return i < node_.outputs.size() && !node_.outputs[i].empty();
  }
  [[nodiscard]] DType dtype(NodeId id) const;
  [[nodiscard]] Sizes sizes_of(NodeId id) const;
  NodeId add(const ops::Op& op, std::span<const NodeId> inputs);  // on the way to the result
  NodeId add(const ops::Op& op, std::initializer_list<NodeId> inputs) {
    return add(op, std::span(inputs.begin(), inputs.size()));
  }
  NodeId add(const ops::OpSpec& spec, std::initializer_list<NodeId> inputs) {
    return add(ops::parse_op(spec, {}), inputs);
  }
  void result(const ops::Op& op, std::span<const NodeId> inputs, std::size_t i = 0);
  void result(const ops::Op& op, std::initializer_list<NodeId> inputs, std::size_t i = 0) {
    result(op, std::span(inputs.begin(), inputs.size()), i);
  }
  void result(const ops::OpSpec& spec, std::initializer_list<NodeId> inputs, std::size_t i = 0) {
    result(ops::parse_op(spec, {}), inputs, i);
  }
  void result(Value value, std::size_t i = 0);
  void result(Known known);
  // An operand under another name.
  void identity(std::size_t output = 0, std::size_t input = 0);
  // A result that nothing here can use: the indices of a pooling.
  void unusable(std::size_t i, const std::string& why);
  // An operator that moves elements and computes nothing, applied to operand i.
  void move(const ops::Op& op, std::size_t input = 0, std::size_t output = 0);
  // The same of whole numbers that are fed.
  Value moved(const Value& fed, const ops::Op& op) const;
  // The same elements in another shape, made in two steps where the dimensions do not nest.
  NodeId reshaped(NodeId id, const Sizes& sizes);
  void reshape(const Sizes& sizes, std::size_t output = 0);
  // Whole numbers that are computed from inputs of them, outside the graph: they are an input.
  void derived(std::int32_t type, Sizes sizes);
  // What it is computed from; empty where that is not easily said.
  std::string derived_key();
  // The scores in operand i under the causal mask `mask`.
  void causal(std::size_t i, KnownPtr mask, bool times_mask = false);
  // The nodes of a graph inside this node, as if they stood here; its outputs are this node's.
  void inline_graph(std::string_view message);
  void charge(std::int64_t elements);
  // Marks results that are computed from whole numbers and constants only.
  void note_from_whole();
  std::int64_t next_dropout();
  [[nodiscard]] std::int64_t file_batch() const { return importer_.file_batch_; }
  [[nodiscard]] std::int64_t batch() const { return importer_.out_.batch; }

 private:
  Importer& importer_;
  const Node& node_;
  std::vector<std::string_view> asked_;
};

// --- Tables of converters -----------------------------------------------------------------------

using Converter = void (*)(Call&);

// A move of whole numbers as a move of the rows that they name, which are `width` long.
ops::Op row_move(const ops::Op& op, std::int64_t width);

// Is this an elementwise operator without attributes? Then it says itself which ONNX operator it
// is, and needs no converter.
bool plain_operator(const ops::OpSpec* spec);

// By operator.
const std::map<std::string_view, Converter>& converters();

// Computes the result where all operands are known; null where the operator is not foldable or an
// operand is computed. Some fold whatever their operands are: Shape.
bool fold(Call& call);
std::vector<std::string_view> foldable_operators();
Known known_cast(const Known& k, std::int32_t type);
Sizes broadcast_sizes(const Sizes& a, const Sizes& b);

// Where whole numbers are computed from inputs of whole numbers, the result becomes an input; false
// where they are not.
bool derive(Call& call);

// The files of converters; converters() joins them.
using ConverterList = std::vector<std::pair<std::string_view, Converter>>;
ConverterList elementwise_converters();
ConverterList image_converters();
ConverterList matrix_converters();
ConverterList parts_converters();
ConverterList shape_converters();

}  // namespace tandem::import

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "import/collection_conditions.h"
#include "import/collection_operators.h"
#include "import/collection_rule.h"
#include "ops/registry.h"
#include "rewrite/pattern_sizes.h"

namespace tandem::import {

using rewrite::Expression;
using rewrite::make_literal;
using rewrite::Operation;
using rewrite::PatternId;
using rewrite::PatternNode;
using rewrite::PatternSizes;
using rewrite::Ranks;
using rewrite::Rule;
using rewrite::Side;

namespace {

bool is_constant(const std::string& type) { return type.starts_with("OP_CONSTANT_"); }
// Returns whether the result of operator `type` has the sizes of its first operand, whatever the
// other operands are.
bool keeps_sizes(const std::string& type) {
  constexpr std::array kKeeping = {"OP_MUL",  "OP_POOL2D_AVG", "OP_POOL2D_MAX",
                                   "OP_RELU", "OP_SIGMOID",    "OP_TANH"};
  return std::ranges::find(kKeeping, type) != kKeeping.end();
}
bool is_elementwise(const std::string& type) { return type.starts_with("OP_EW_"); }
bool is_external_input(const std::string& type) {
  return type == "OP_INPUT" || type == "OP_WEIGHT";
}

std::uint16_t find_or_add_name(std::vector<std::string>& names, const std::string& name) {
  const auto at = std::ranges::find(names, name) - names.begin();
  if (static_cast<std::size_t>(at) == names.size()) names.push_back(name);
  return static_cast<std::uint16_t>(at);
}

struct Context {
  Rule& rule;
  Ranks& ranks;
  Dimensions dimensions;
  // Whether a degree of 2 means 2, and not any degree. True if the rule has operators for exactly 2
  // tensors.
  bool fixed_degree = false;
  std::vector<Expression> implied = {};  // conditions that hold because of the source's operators
  bool strict = false;  // false: unknown sizes become 0, because only ranks are sought
};

// The size that the reader of a constant needs.
struct ConstantSize {
  std::optional<Expression> size = {};   // side length of a square
  std::optional<Expression> shape = {};  // every dimension
};

class SideImport {
 public:
  SideImport(Context& context, const std::vector<CollectionOperator>& operators, Side& side)
      : context_(context), operators_(operators), side_(side) {}

  PatternId import_tensor(const CollectionTensor& t, const ConstantSize& size = {}) {
    if (t.op < 0) return add_variable(t.op, t.output);
    const auto known = values_.find(t);
    if (known != values_.end()) return known->second;
    const auto& op = operators_[static_cast<std::size_t>(t.op)];
    const auto id = convert(op, t, size);
    if (!is_constant(op.type)) values_.emplace(t, id);
    return id;
  }

  [[nodiscard]] const PatternSizes::KnownPatternSizes& known() const { return known_; }

 private:
  [[noreturn]] static void throw_lacking(const CollectionOperator& op, const std::string& why) {
    throw Lacking(fmt::format("{}: {}", op.type, why));
  }

  PatternId add_variable(std::int64_t op, std::int64_t output) {
    constexpr std::int64_t kFirstWeight = -4;
    constexpr std::int64_t kLastWeight = -6;
    const bool weight = op <= kFirstWeight && op >= kLastWeight;
    auto name = fmt::format("{}{}", weight ? "w" : "x", -op);
    if (output > 0) name += fmt::format("_{}", output);
    return add_named_variable(name);
  }
  PatternId add_named_variable(const std::string& name) {
    const auto v = find_or_add_name(context_.rule.tensors, name);
    if (context_.ranks.size() <= v) context_.ranks.resize(v + std::size_t{1});
    return side_.add({.variable = v});
  }

  // Returns the ranks and sizes of the nodes added so far.
  [[nodiscard]] PatternSizes compute_sizes() const { return {side_, context_.ranks, known_}; }

  [[nodiscard]] std::int64_t get_parameter(const CollectionOperator& op,
                                           const std::string& key) const {
    const auto at = op.parameters.find(key);
    if (at == op.parameters.end()) throw_lacking(op, fmt::format("{} is missing", key));
    return at->second;
  }

  // Converts dimension `raw` to ours, which does not count the replica dimension.
  [[nodiscard]] std::int64_t from_raw_dimension(const CollectionOperator& op,
                                                std::int64_t raw) const {
    const auto out = raw - (context_.dimensions == Dimensions::kReplicasFirst ? 1 : 0);
    if (raw < 0 || raw > static_cast<std::int64_t>(Shape::kMaxRank)) {
      throw_lacking(op, fmt::format("there is no dimension {}", raw));
    }
    if (out < 0) throw_lacking(op, "dimension 0 is the replica dimension, not one of the tensor");
    return out;
  }

  void state_rank(const CollectionOperator& op, PatternId id) {
    const auto at = op.parameters.find("PM_NUMDIM");
    if (at == op.parameters.end()) return;
    const auto rank = at->second - (context_.dimensions == Dimensions::kReplicasFirst ? 1 : 0);
    if (rank < 0 || rank > static_cast<std::int64_t>(Shape::kMaxRank)) {
      throw_lacking(op, fmt::format("PM_NUMDIM is {}", at->second));
    }
    known_.ranks.emplace(id, static_cast<std::size_t>(rank));
  }

  PatternId convert(const CollectionOperator& op, const CollectionTensor& t,
                    const ConstantSize& size) {
    if (is_external_input(op.type)) {
      std::size_t before = 0;
      for (std::int64_t i = 0; i < t.op; ++i) {
        if (is_external_input(operators_[static_cast<std::size_t>(i)].type)) ++before;
      }
      return add_named_variable(fmt::format("input{}", before));
    }
    if (op.type == "OP_CONCAT") return import_concat(op);
    if (op.type == "OP_SPLIT") return import_split(op, t.output);
    const auto& line = find_operator_line(op);
    const auto inputs = convert_inputs(op, size);
    // The line concatenates a tensor with itself or adds its two halves, so the degree must be 2.
    if (line.when.contains("PM_PARALLEL_DEGREE")) context_.fixed_degree = true;
    auto id = instantiate(op, line, inputs, size);
    if (op.type == "OP_MUL" || op.type == "OP_PRELU" || op.type == "OP_WHERE")
      known_.stretched.push_back(id);
    remember_sizes(op, inputs, id);
    const auto acti = op.parameters.find("PM_ACTI");
    const bool mentioned = std::ranges::find(line.line.symbols, "acti") != line.line.symbols.end();
    if (acti != op.parameters.end() && !mentioned) id = add_activation(op, id, acti->second);
    return id;
  }

  std::string get_activation_name(const CollectionOperator& op, std::int64_t number) const {
    if (number < 0 || number >= std::ssize(kActivations)) {
      throw_lacking(op, fmt::format("PM_ACTI is {}, but must be in 0..3", number));
    }
    return kActivations[number];
  }
  PatternId add_activation(const CollectionOperator& op, PatternId id, std::int64_t number) {
    const auto name = get_activation_name(op, number);
    return name == "none" ? id : side_.add({.spec = &ops::find_op(name), .inputs = {id}});
  }

  // Returns whether `t` is a constant, or computed from constants elementwise. Such a tensor takes
  // the size that its reader needs.
  [[nodiscard]] bool is_constant_sized(const CollectionTensor& t) const {
    if (t.op < 0) return false;
    const auto& op = operators_[static_cast<std::size_t>(t.op)];
    if (is_constant(op.type)) return true;
    if (is_elementwise(op.type)) {
      return std::ranges::all_of(op.inputs, [&](const auto& i) { return is_constant_sized(i); });
    }
    return keeps_sizes(op.type) && !op.inputs.empty() && is_constant_sized(op.inputs[0]);
  }

  // Converts the operands of `op`. `size` is the size that the reader of the result needs.
  std::vector<PatternId> convert_inputs(const CollectionOperator& op,
                                        const ConstantSize& size = {}) {
    std::vector<PatternId> out(op.inputs.size());
    const auto constant = [&](std::size_t i) { return is_constant_sized(op.inputs[i]); };
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!constant(i)) out[i] = import_tensor(op.inputs[i]);
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!constant(i)) continue;
      const std::size_t other = i == 0 ? 1 : 0;
      const bool tells = other < out.size() && !constant(other) && !keeps_sizes(op.type);
      const bool passes = keeps_sizes(op.type) || is_elementwise(op.type);
      out[i] = import_tensor(op.inputs[i], tells    ? compute_constant_size(op, i, out[other])
                                           : passes ? size
                                                    : ConstantSize{});
    }
    return out;
  }

  // Returns the size that operand `i` needs to fit operand `other`.
  [[nodiscard]] ConstantSize compute_constant_size(const CollectionOperator& op, std::size_t i,
                                                   PatternId other) const {
    const auto s = compute_sizes();
    const auto rank = s.rank(other);
    if (op.type == "OP_CONV2D") return {.size = s.size(other, 1)};
    if (op.type == "OP_MATMUL" || op.type == "OP_LINEAR") {
      if (rank) return {.size = s.size(other, i == 0 ? *rank - 2 : *rank - 1)};
      return {.size = s.size(other, i == 0 ? 0 : 1)};  // the operands are matrices
    }
    // An elementwise operator broadcasts a scalar, so a scalar constant is equivalent.
    const Expression scalar{.literal = std::vector<std::int64_t>{}};
    if (!rank) return {.shape = is_elementwise(op.type) ? std::optional(scalar) : std::nullopt};
    // A concat places squares next to each other along one of their two dimensions; the other must
    // fit.
    const auto along = op.type == "OP_CONCAT" ? get_parameter(op, "PM_AXIS") : 1;
    ConstantSize out{.size = s.size(other, along == 0 ? 1 : 0)};
    Expression shape{.operation = Operation::kList};
    for (std::size_t axis = 0; axis < *rank; ++axis) {
      auto size = s.size(other, axis);
      if (!size) return out;
      shape.operands.push_back(std::move(*size));
    }
    out.shape = std::move(shape);
    return out;
  }

  PatternId import_concat(const CollectionOperator& op) {
    if (op.inputs.size() < 2)
      throw_lacking(op, fmt::format("takes at least 2 inputs, but has {}", op.inputs.size()));
    if (const auto n = op.parameters.find("PM_NUM_INPUTS");
        n != op.parameters.end() && n->second != std::ssize(op.inputs)) {
      throw_lacking(op, fmt::format("PM_NUM_INPUTS is {}, but there are {} inputs", n->second,
                                    op.inputs.size()));
    }
    check_parameters(op, {"PM_AXIS"});
    const auto inputs = convert_inputs(op);
    const auto raw = get_parameter(op, "PM_AXIS");
    if (context_.dimensions == Dimensions::kReplicasFirst && raw == 0) {
      context_.fixed_degree = true;
      const auto id = side_.add({.spec = &ops::kJoin, .inputs = inputs});
      state_rank(op, id);
      return id;
    }
    const auto id = side_.add({.spec = &ops::kConcat,
                               .attributes = {make_literal(from_raw_dimension(op, raw))},
                               .inputs = inputs});
    state_rank(op, id);
    require_fit(op, id);
    return id;
  }

  // Requires that the operands of a concat have equal sizes along the other dimensions. A concat of
  // the source implies it. For a concat of the target alone it becomes a condition.
  void require_fit(const CollectionOperator& op, PatternId id) {
    const auto s = compute_sizes();
    const auto rank = s.rank(id);
    const auto& node = side_.nodes[id];
    const auto along = std::get<std::int64_t>(node.attributes[0].literal);
    for (std::size_t axis = 0; rank && axis < *rank; ++axis) {
      if (static_cast<std::int64_t>(axis) == along) continue;
      const auto first = s.size(node.inputs[0], axis);
      for (std::size_t i = 1; first && i < node.inputs.size(); ++i) {
        auto other = s.size(node.inputs[i], axis);
        if (!other) continue;
        auto fits = make_expression(Operation::kEqual, *first, std::move(*other));
        auto& implied = context_.implied;
        if (&side_ == &context_.rule.source) {
          implied.push_back(std::move(fits));
        } else if (std::ranges::find(implied, fits) == implied.end()) {
          require(op, std::move(fits));
        }
      }
    }
  }

  PatternId import_split(const CollectionOperator& op, std::int64_t output) {
    if (op.inputs.size() != 1)
      throw_lacking(op, fmt::format("takes 1 input, but has {}", op.inputs.size()));
    check_parameters(op, {"PM_AXIS"});
    const auto count = get_parameter(op, "PM_NUM_OUTPUTS");
    const auto axis = from_raw_dimension(op, get_parameter(op, "PM_AXIS"));
    const auto input = convert_inputs(op)[0];
    state_rank(op, input);
    const auto s = compute_sizes();
    const auto parts = s.parts(input, static_cast<std::size_t>(axis));
    if (std::ssize(parts) != count) {
      return side_.add(
          {.spec = &ops::kSplit,
           .attributes = {make_literal(axis), make_literal(count), make_literal(output)},
           .inputs = {input}});
    }
    auto begin = make_literal(0);
    for (std::int64_t i = 0; i < output; ++i) {
      const auto& part = parts[static_cast<std::size_t>(i)];
      begin = i == 0 ? part : make_folded_operation(Operation::kAdd, std::move(begin), part);
    }
    return side_.add({.spec = &ops::kSlice,
                      .attributes = {make_literal(axis), std::move(begin),
                                     parts[static_cast<std::size_t>(output)]},
                      .inputs = {input}});
  }

  void check_parameters(const CollectionOperator& op,
                        std::initializer_list<const char*> known) const {
    for (const auto& parameter : op.parameters) {
      const auto& key = parameter.first;
      if (is_ignored_parameter(key) || std::ranges::find(known, key) != known.end()) continue;
      throw_lacking(op, fmt::format("unknown parameter {}", key));
    }
  }

  // --- Lines ------------------------------------------------------------------------------------

  Expression compute_symbol_value(const CollectionOperator& op, const std::string& symbol,
                                  const ConstantSize& size) {
    if (symbol == "size" || symbol == "shape") {
      const auto& constant = symbol == "size" ? size.size : size.shape;
      if (constant) return *constant;
      // The symbol binds any size.
      return {
          .operation = Operation::kSymbol,
          .variables = {find_or_add_name(context_.rule.symbols, symbol == "size" ? "n" : symbol)}};
    }
    if (symbol.starts_with("dropout_")) {
      const auto name = symbol.substr(std::string_view("dropout_").size());
      return {.operation = Operation::kSymbol,
              .variables = {find_or_add_name(context_.rule.symbols, name)}};
    }
    const auto raw = get_parameter(op, to_parameter_name(symbol));
    if (symbol == "acti") return {.literal = get_activation_name(op, raw)};
    if (symbol == "perm") return {.literal = decode_permutation(op, raw)};
    if (symbol == "axis" || symbol == "parallel_dim" || symbol == "softmax_dim") {
      return make_literal(from_raw_dimension(op, raw));
    }
    if (symbol == "parallel_degree" && raw == 2 && !context_.fixed_degree) {
      return {.operation = Operation::kSymbol,
              .variables = {find_or_add_name(context_.rule.symbols, "d")}};
    }
    return make_literal(raw);
  }

  // Returns the digits of `index` in the base of the rank: for rank 2, index 2 -> [1, 0].
  [[nodiscard]] std::vector<std::int64_t> decode_permutation(const CollectionOperator& op,
                                                             std::int64_t index) const {
    const auto rank = get_parameter(op, "PM_NUMDIM");
    if (rank < 1 || rank > static_cast<std::int64_t>(Shape::kMaxRank) || index < 0) {
      throw_lacking(op,
                    fmt::format("PM_PERM {} of {} dimensions is not a permutation", index, rank));
    }
    std::vector<std::int64_t> out(static_cast<std::size_t>(rank));
    for (auto i = out.size(); i-- > 0; index /= rank) out[i] = index % rank;
    if (context_.dimensions == Dimensions::kReplicasFirst) {
      if (out[0] != 0) throw_lacking(op, "moves dimension 0, the replica dimension");
      out.erase(out.begin());
      for (auto& d : out) --d;
    }
    auto sorted = out;
    std::ranges::sort(sorted);
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] != static_cast<std::int64_t>(i)) {
        throw_lacking(op, fmt::format("[{}] is not a permutation", fmt::join(out, ", ")));
      }
    }
    return out;
  }

  PatternId instantiate(const CollectionOperator& op, const OperatorLine& line,
                        const std::vector<PatternId>& inputs, const ConstantSize& size) {
    std::vector<Expression> symbols;
    symbols.reserve(line.line.symbols.size());
    for (const auto& symbol : line.line.symbols)
      symbols.push_back(compute_symbol_value(op, symbol, size));
    const auto s = compute_sizes();
    for (const auto& condition : line.line.conditions)
      add_condition(op, condition, inputs, symbols, s);
    std::vector<PatternId> made(line.line.source.nodes.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      const auto& node = line.line.source.nodes[i];
      if (node.is_variable()) {
        made[i] = inputs[node.variable];
        continue;
      }
      PatternNode copy{.spec = node.spec};
      copy.attributes.reserve(node.attributes.size());
      for (const auto& attribute : node.attributes) {
        copy.attributes.push_back(compute_attribute_value(op, attribute, inputs, symbols, s));
      }
      copy.inputs.reserve(node.inputs.size());
      for (auto input : node.inputs) copy.inputs.push_back(made[input]);
      made[i] = side_.add(std::move(copy));
    }
    return made[line.line.source.outputs[0]];
  }

  // Returns expression `e` of a line with its symbols and sizes replaced. Returns nullopt if a size
  // is unknown.
  std::optional<Expression> substitute(const Expression& e, const std::vector<PatternId>& inputs,
                                       const std::vector<Expression>& symbols,
                                       const PatternSizes& s) const {
    switch (e.operation) {
      case Operation::kLiteral:
        return e;
      case Operation::kSymbol:
        return symbols[e.variables[0]];
      case Operation::kDim:
        return s.size(inputs[e.variables[0]],
                      static_cast<std::size_t>(std::get<std::int64_t>(e.operands[0].literal)));
      case Operation::kRank: {
        const auto id = inputs[e.variables[0]];
        const auto& node = side_.nodes[id];
        if (node.is_variable())
          return Expression{.operation = e.operation, .variables = {node.variable}};
        const auto rank = s.rank(id);
        if (!rank) return std::nullopt;
        return make_literal(static_cast<std::int64_t>(*rank));
      }
      default:
        break;
    }
    Expression out{.operation = e.operation};
    out.operands.reserve(e.operands.size());
    bool known = true;
    for (const auto& operand : e.operands) {
      auto value = substitute(operand, inputs, symbols, s);
      if (!value) return std::nullopt;
      known = known && value->operation == Operation::kLiteral;
      out.operands.push_back(std::move(*value));
    }
    const auto value = known ? evaluate(out, {}) : std::nullopt;
    return value ? Expression{.literal = *value} : out;
  }

  Expression compute_attribute_value(const CollectionOperator& op, const Expression& attribute,
                                     const std::vector<PatternId>& inputs,
                                     const std::vector<Expression>& symbols,
                                     const PatternSizes& s) const {
    auto out = substitute(attribute, inputs, symbols, s);
    if (!out) {
      if (context_.strict)
        throw_lacking(op, "requires the size of an operand, which the rule does not give");
      return make_literal(0);
    }
    bool computable = true;
    for_each_part(*out, [&](const Expression& part) {
      const bool known = std::ranges::all_of(part.operands, [](const Expression& operand) {
        return operand.operation == Operation::kLiteral;
      });
      if (known && !part.operands.empty() && part.variables.empty()) computable = false;
    });
    if (!computable) throw_lacking(op, "its padding differs between the two sides");
    return *out;
  }

  void add_condition(const CollectionOperator& op, const Expression& condition,
                     const std::vector<PatternId>& inputs, const std::vector<Expression>& symbols,
                     const PatternSizes& s) {
    if (condition.operation == Operation::kSameShape) {
      return add_same_shape(op, inputs[condition.variables[0]], inputs[condition.variables[1]], s);
    }
    if (auto e = substitute(condition, inputs, symbols, s)) require(op, std::move(*e));
  }

  void add_same_shape(const CollectionOperator& op, PatternId a, PatternId b,
                      const PatternSizes& s) {
    if (a == b) return;
    const auto& x = side_.nodes[find_shape_origin(a)];
    const auto& y = side_.nodes[find_shape_origin(b)];
    if (x.is_variable() && y.is_variable()) {
      if (x.variable == y.variable) return;
      return require(op,
                     {.operation = Operation::kSameShape, .variables = {x.variable, y.variable}});
    }
    const auto rank = s.rank(a) ? s.rank(a) : s.rank(b);
    if (!rank) return;
    for (std::size_t axis = 0; axis < *rank; ++axis) {
      auto n = s.size(a, axis);
      auto m = s.size(b, axis);
      if (!n || !m) continue;
      require(op, make_expression(Operation::kEqual, std::move(*n), std::move(*m)));
    }
  }

  // Returns the node that has the shape of `id`, found through operators that keep sizes.
  [[nodiscard]] PatternId find_shape_origin(PatternId id) const {
    while (!side_.nodes[id].is_variable()) {
      const auto& index = side_.nodes[id].spec->index;
      const bool keeps = index == "... -> ..." || index == "..., ... -> ...";
      if (!keeps || side_.nodes[id].inputs.empty()) break;
      id = side_.nodes[id].inputs[0];
    }
    return id;
  }

  void require(const CollectionOperator& op, Expression condition) {
    if (condition.operation == Operation::kLiteral) {
      if (condition == Expression{.literal = std::string("false")}) {
        throw_lacking(op, "its operands can never have such sizes");
      }
      return;
    }
    if (condition.operation == Operation::kEqual &&
        condition.operands[0] == condition.operands[1]) {
      return;
    }
    auto& conditions = context_.rule.conditions;
    if (std::ranges::find(conditions, condition) == conditions.end()) {
      conditions.push_back(std::move(condition));
    }
  }

  // Records sizes that the operator's index text does not give: same padding and stride 1 keep the
  // image's sizes.
  void remember_sizes(const CollectionOperator& op, const std::vector<PatternId>& inputs,
                      PatternId id) {
    const auto is = [&](const char* key, std::int64_t value) {
      const auto at = op.parameters.find(key);
      return at != op.parameters.end() && at->second == value;
    };
    constexpr std::array kSpace = {std::size_t{2}, std::size_t{3}};
    const bool same = is("PM_PAD", 0) && is("PM_STRIDE_H", 1) && is("PM_STRIDE_W", 1);
    if (!same || inputs.empty()) return;
    const auto s = compute_sizes();
    for (auto axis : kSpace) {
      if (auto size = s.size(inputs[0], axis)) known_.sizes[{id, axis}] = std::move(*size);
    }
  }

  Context& context_;
  const std::vector<CollectionOperator>& operators_;
  Side& side_;
  PatternSizes::KnownPatternSizes known_;
  std::map<CollectionTensor, PatternId> values_;
};

void import_once(const CollectionRule& in, Context& context) {
  SideImport source(context, in.source, context.rule.source);
  SideImport target(context, in.target, context.rule.target);
  for (const auto& output : in.outputs) {
    context.rule.source.outputs.push_back(source.import_tensor(output.source));
  }
  for (const auto& output : in.outputs) {
    context.rule.target.outputs.push_back(target.import_tensor(output.target));
  }
  // Two rounds, because ranks found on one side also hold on the other.
  for (int round = 0; round < 2; ++round) {
    const PatternSizes of_source(context.rule.source, context.ranks, source.known());
    const PatternSizes of_target(context.rule.target, context.ranks, target.known());
    if (of_source.is_consistent() && of_target.is_consistent()) continue;
    throw Lacking("its operators require tensors with different numbers of dimensions");
  }
}

}  // namespace

Rule to_rule(const CollectionRule& in, Dimensions dimensions, const std::string& name) {
  Rule rule;
  Ranks ranks;
  bool fixed_degree = false;
  for (const bool strict : {false, true}) {
    rule = {};
    rule.name = name;
    Context context{.rule = rule,
                    .ranks = ranks,
                    .dimensions = dimensions,
                    .fixed_degree = fixed_degree,
                    .strict = strict};
    import_once(in, context);
    fixed_degree = context.fixed_degree;
  }
  merge_same_shapes(rule);
  add_rank_conditions(rule, ranks);
  add_degree_choice(rule);
  try {
    check_bound(rule);
  } catch (const UserError& e) {
    throw Lacking(e.message);
  }
  return rule;
}

}  // namespace tandem::import

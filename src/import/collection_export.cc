#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/text.h"
#include "import/collection_conditions.h"
#include "import/collection_operators.h"
#include "import/collection_rule.h"
#include "ops/registry.h"
#include "rewrite/pattern_sizes.h"
#include "rewrite/rule_text.h"

namespace tandem::import {

using rewrite::Expression;
using rewrite::get_default_attributes;
using rewrite::make_dim;
using rewrite::make_literal;
using rewrite::Operation;
using rewrite::PatternId;
using rewrite::PatternSizes;
using rewrite::Ranks;
using rewrite::Rule;
using rewrite::Side;

namespace {

using Found = std::vector<std::optional<Expression>>;

// Largest value tried for a parameter that no attribute determines.
constexpr std::int64_t kMaxTried = 15;

// A match of an operator line in a side: the nodes of its inputs and the values of its symbols.
struct LineMatch {
  std::vector<std::optional<PatternId>> inputs;
  Found symbols;
  // Pairs of an attribute of the line and one of the side, compared once all symbols are known.
  std::vector<std::pair<const Expression*, Expression>> later;
};

std::optional<std::int64_t> as_integer_literal(const Expression& e) {
  if (e.operation != Operation::kLiteral) return std::nullopt;
  const auto* value = std::get_if<std::int64_t>(&e.literal);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

// Returns the elements of a list: [1, 1] -> two expressions. Returns nullopt if `e` is no list.
std::optional<std::vector<Expression>> get_list_items(const Expression& e) {
  if (e.operation == Operation::kList) return e.operands;
  const auto* list = e.operation == Operation::kLiteral
                         ? std::get_if<std::vector<std::int64_t>>(&e.literal)
                         : nullptr;
  if (list == nullptr) return std::nullopt;
  std::vector<Expression> out;
  out.reserve(list->size());
  for (auto item : *list) out.push_back(make_literal(item));
  return out;
}

// Returns the mul nodes that multiply by a scalar. The condition dim(?y, 0) == 1 marks a scalar ?y.
std::vector<PatternId> find_stretched_nodes(const Rule& rule, const Side& side) {
  std::vector<PatternId> out;
  for (std::size_t i = 0; i < side.nodes.size(); ++i) {
    const auto& node = side.nodes[i];
    if (node.spec != &ops::kMul || node.inputs.size() != 2) continue;
    const auto& operand = side.nodes[node.inputs[1]];
    if (!operand.is_variable()) continue;
    const auto one =
        make_expression(Operation::kEqual, make_dim(operand.variable, 0), make_literal(1));
    if (std::ranges::find(rule.conditions, one) != rule.conditions.end()) {
      out.push_back(static_cast<PatternId>(i));
    }
  }
  return out;
}

class SideExport {
 public:
  SideExport(const Rule& rule, const Side& side, const std::vector<CollectionTensor>& variables,
             Ranks& ranks, Dimensions dimensions)
      : rule_(rule),
        shapes_(compute_shape_classes(rule)),
        side_(side),
        variables_(variables),
        known_{.ranks = {}, .sizes = {}, .stretched = find_stretched_nodes(rule, side)},
        sizes_(side, ranks, known_),
        dimensions_(dimensions) {}

  CollectionTensor export_node(PatternId id) {
    const auto& node = side_.nodes[id];
    if (node.is_variable()) return variables_[node.variable];
    if (const auto known = values_.find(id); known != values_.end()) return known->second;
    const auto out = convert(id);
    values_.emplace(id, out);
    return out;
  }

  std::vector<CollectionOperator> take() { return std::move(operators_); }

 private:
  CollectionTensor add(CollectionOperator op) {
    const auto known = std::ranges::find(operators_, op);
    const auto at = known - operators_.begin();
    if (known == operators_.end()) operators_.push_back(std::move(op));
    return {at, 0};
  }

  std::vector<CollectionTensor> export_nodes(const std::vector<PatternId>& ids) {
    std::vector<CollectionTensor> out;
    out.reserve(ids.size());
    for (auto id : ids) out.push_back(export_node(id));
    return out;
  }

  CollectionTensor convert(PatternId id) {
    const auto& node = side_.nodes[id];
    if (node.spec == &ops::kJoin) return export_concat(id, 0);
    if (node.spec == &ops::kSlice || node.spec == &ops::kSplit) return export_split(id);
    std::string why;
    for (const auto* line : get_lines_by_size()) {
      const auto& pattern = line->line.source;
      const auto* begins_with = pattern.nodes[pattern.outputs[0]].spec;
      if (begins_with != nullptr && begins_with != node.spec) continue;
      LineMatch match{std::vector<std::optional<PatternId>>(line->line.tensors.size()),
                      Found(line->line.symbols.size()),
                      {}};
      if (!match_pattern(line->line, line->line.source.outputs[0], id, match)) continue;
      if (!has_numeric_group(line->line, match)) continue;
      const bool is_open = std::ranges::any_of(match.symbols, [](const auto& s) { return !s; });
      if (!find_symbols(*line, match)) {
        if (why.empty() && !is_open) why = explain_missing_condition(*line, match, id);
        continue;
      }
      CollectionOperator op{.type = line->type};
      try {
        op.parameters = compute_parameters(*line, match);
      } catch (const Lacking& e) {
        why = e.what();
        continue;
      }
      for (const auto& input : match.inputs) op.inputs.push_back(export_node(*input));
      return add(std::move(op));
    }
    if (node.spec == &ops::kConcat) {
      const auto axis = as_integer_literal(node.attributes[0]);
      if (!axis) throw Lacking("concat: the axis is a symbol, but must be a number");
      return export_concat(id, to_raw_dimension(*axis));
    }
    if (!why.empty()) throw Lacking(why);
    throw Lacking(fmt::format("{}: no operator of the collection expresses {}", node.spec->name,
                              format_node(id)));
  }

  // Returns all lines, those with most nodes first. A line of one node would otherwise match a part
  // of what a larger line matches.
  static const std::vector<const OperatorLine*>& get_lines_by_size() {
    static const auto sorted = [] {
      std::vector<const OperatorLine*> out;
      out.reserve(operator_lines().size());
      for (const auto& line : operator_lines()) out.push_back(&line);
      std::ranges::stable_sort(out, std::greater(), [](const OperatorLine* line) {
        return line->line.source.operator_count();
      });
      return out;
    }();
    return sorted;
  }

  [[nodiscard]] std::string format_node(PatternId id) const {
    const auto& node = side_.nodes[id];
    std::vector<std::string> parts{"(" + node.spec->name};
    const auto& usual = get_default_attributes(*node.spec);
    for (std::size_t a = 0; a < node.attributes.size(); ++a) {
      if (node.attributes[a] == usual[a]) continue;
      parts.push_back(
          fmt::format("{}={}", node.spec->attributes[a].first, to_text(rule_, node.attributes[a])));
    }
    return join(parts, " ") + ")";
  }

  [[nodiscard]] std::int64_t to_raw_dimension(std::int64_t axis) const {
    if (axis < 0) throw Lacking("negative dimensions cannot be exported");
    return axis + (dimensions_ == Dimensions::kReplicasFirst ? 1 : 0);
  }

  CollectionTensor export_concat(PatternId id, std::int64_t axis) {
    if (side_.nodes[id].spec == &ops::kJoin && dimensions_ == Dimensions::kPlain) {
      throw Lacking("join: the collection has no replica dimension");
    }
    CollectionOperator op{.type = "OP_CONCAT", .inputs = export_nodes(side_.nodes[id].inputs)};
    op.parameters = {{"PM_AXIS", axis}, {"PM_NUM_INPUTS", std::ssize(op.inputs)}};
    if (const auto rank = sizes_.rank(id)) {
      op.parameters["PM_NUMDIM"] = to_raw_dimension(static_cast<std::int64_t>(*rank));
    }
    return add(std::move(op));
  }

  CollectionTensor export_split(PatternId id) {
    const auto& node = side_.nodes[id];
    const auto axis = as_integer_literal(node.attributes[0]);
    if (!axis || *axis < 0) throw Lacking(fmt::format("{}: the axis is unknown", node.spec->name));
    const auto parts = sizes_.parts(node.inputs[0], static_cast<std::size_t>(*axis));
    CollectionOperator op{.type = "OP_SPLIT", .inputs = {export_node(node.inputs[0])}};
    op.parameters["PM_AXIS"] = to_raw_dimension(*axis);
    if (node.spec == &ops::kSplit) {
      const auto count = as_integer_literal(node.attributes[1]);
      const auto part = as_integer_literal(node.attributes[2]);
      if (!count || !part || std::ssize(parts) == *count) {
        throw Lacking("split: a collection can only undo an earlier concat");
      }
      op.parameters["PM_NUM_OUTPUTS"] = *count;
      return {add(std::move(op)).op, *part};
    }
    auto begin = make_literal(0);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (begin == node.attributes[1] && parts[i] == node.attributes[2]) {
        op.parameters["PM_NUM_OUTPUTS"] = std::ssize(parts);
        return {add(std::move(op)).op, static_cast<std::int64_t>(i)};
      }
      begin =
          i == 0 ? parts[i] : make_folded_operation(Operation::kAdd, std::move(begin), parts[i]);
    }
    throw Lacking(fmt::format("slice: {} is not a part of an earlier concat", format_node(id)));
  }

  // --- Lines ------------------------------------------------------------------------------------

  static bool bind_or_compare(std::optional<Expression>& known, const Expression& value) {
    if (!known) known = value;
    return *known == value;
  }

  bool match_pattern(const Rule& line, PatternId pattern, PatternId id, LineMatch& match) const {
    const auto& p = line.source.nodes[pattern];
    if (p.is_variable()) {
      auto& known = match.inputs[p.variable];
      if (!known) known = id;
      return *known == id;
    }
    const auto& node = side_.nodes[id];
    if (node.spec != p.spec || node.inputs.size() != p.inputs.size()) return false;
    for (std::size_t a = 0; a < p.attributes.size(); ++a) {
      if (!match_attribute(p.attributes[a], node.attributes[a], match)) return false;
    }
    for (std::size_t i = 0; i < p.inputs.size(); ++i) {
      if (!match_pattern(line, p.inputs[i], node.inputs[i], match)) return false;
    }
    return true;
  }

  static bool match_attribute(const Expression& pattern, const Expression& value,
                              LineMatch& match) {
    if (pattern.operation == Operation::kLiteral) return pattern == value;
    if (pattern.operation == Operation::kSymbol) {
      return bind_or_compare(match.symbols[pattern.variables[0]], value);
    }
    if (pattern.operation != Operation::kList) {
      match.later.emplace_back(&pattern, value);
      return true;
    }
    const auto list = get_list_items(value);
    if (!list || list->size() != pattern.operands.size()) return false;
    for (std::size_t i = 0; i < list->size(); ++i) {
      if (!match_attribute(pattern.operands[i], (*list)[i], match)) return false;
    }
    return true;
  }

  // Returns whether the line's parameter `group`, if it has one, is a number. The next line
  // computes groups from sizes.
  static bool has_numeric_group(const Rule& line, const LineMatch& match) {
    const auto at = std::ranges::find(line.symbols, "group") - line.symbols.begin();
    const auto i = static_cast<std::size_t>(at);
    return i == line.symbols.size() || (match.symbols[i] && as_integer_literal(*match.symbols[i]));
  }

  bool find_symbols(const OperatorLine& line, LineMatch& match) const {
    std::vector<std::size_t> open;
    for (std::size_t s = 0; s < match.symbols.size(); ++s) {
      if (!match.symbols[s]) open.push_back(s);
    }
    if (open.empty()) return agrees(line.line, match);
    if (open.size() > 2) return false;
    for (std::int64_t a = 1; a <= kMaxTried; ++a) {
      match.symbols[open[0]] = make_literal(a);
      for (std::int64_t b = 1; b <= (open.size() == 2 ? kMaxTried : 1); ++b) {
        if (open.size() == 2) match.symbols[open[1]] = make_literal(b);
        if (agrees(line.line, match)) return true;
      }
    }
    return false;
  }

  // Returns whether the attributes are those that the line computes, and the rule states the line's
  // conditions.
  bool agrees(const Rule& line, const LineMatch& match) const {
    return attributes_agree(match) &&
           std::ranges::all_of(line.conditions,
                               [&](const Expression& c) { return states_condition(c, match); });
  }

  bool attributes_agree(const LineMatch& match) const {
    return std::ranges::all_of(match.later, [&](const auto& later) {
      return substitute(*later.first, match) == later.second;
    });
  }

  bool states_condition(const Expression& condition, const LineMatch& match) const {
    if (condition.operation == Operation::kSameShape) return states_same_shape(condition, match);
    const auto e = substitute(condition, match);
    if (!e) return condition.operands[0].operation != Operation::kRank;
    return *e == Expression{.literal = std::string("true")} || is_stated(*e);
  }

  // Returns a message if `line` fits except for a same_shape condition that the rule does not
  // state. Returns "" otherwise.
  std::string explain_missing_condition(const OperatorLine& line, const LineMatch& match,
                                        PatternId id) const {
    if (!attributes_agree(match)) return "";
    const auto unsaid = std::ranges::find_if_not(
        line.line.conditions, [&](const Expression& c) { return states_condition(c, match); });
    if (unsaid == line.line.conditions.end() || unsaid->operation != Operation::kSameShape) {
      return "";
    }
    const auto name = [&](std::size_t i) {
      return rule_.tensors[side_.nodes[*match.inputs[unsaid->variables[i]]].variable];
    };
    return fmt::format(
        "{}: {} does not broadcast, and the rule does not require same_shape(?{}, ?{})",
        side_.nodes[id].spec->name, line.type, name(0), name(1));
  }

  bool is_stated(const Expression& condition) const {
    return std::ranges::find(rule_.conditions, condition) != rule_.conditions.end();
  }

  bool states_same_shape(const Expression& condition, const LineMatch& match) const {
    const auto a = *match.inputs[condition.variables[0]];
    const auto b = *match.inputs[condition.variables[1]];
    const auto& x = side_.nodes[a];
    const auto& y = side_.nodes[b];
    if (a == b || !x.is_variable() || !y.is_variable()) return true;
    return shapes_[x.variable] == shapes_[y.variable];
  }

  std::optional<Expression> substitute(const Expression& e, const LineMatch& match) const {
    switch (e.operation) {
      case Operation::kLiteral:
        return e;
      case Operation::kSymbol:
        return match.symbols[e.variables[0]];
      case Operation::kDim:
        return sizes_.size(*match.inputs[e.variables[0]],
                           static_cast<std::size_t>(*as_integer_literal(e.operands[0])));
      case Operation::kRank: {
        const auto& node = side_.nodes[*match.inputs[e.variables[0]]];
        if (!node.is_variable()) return std::nullopt;
        return Expression{.operation = e.operation, .variables = {node.variable}};
      }
      default:
        break;
    }
    Expression out{.operation = e.operation};
    out.operands.reserve(e.operands.size());
    for (const auto& operand : e.operands) {
      auto value = substitute(operand, match);
      if (!value) return std::nullopt;
      out.operands.push_back(std::move(*value));
    }
    const auto value = evaluate(out, {});
    return value ? Expression{.literal = *value} : out;
  }

  [[nodiscard]] std::map<std::string, std::int64_t> compute_parameters(
      const OperatorLine& line, const LineMatch& match) const {
    std::map<std::string, std::int64_t> out;
    for (const auto& [key, value] : line.when) {
      if (value) out[key] = *value;
    }
    for (std::size_t s = 0; s < match.symbols.size(); ++s) {
      const auto& symbol = line.line.symbols[s];
      if (symbol == "size" || symbol == "shape" || symbol.starts_with("dropout_")) continue;
      out[to_parameter_name(symbol)] = to_parameter_value(line.type, symbol, *match.symbols[s]);
      if (symbol == "perm") {
        out["PM_NUMDIM"] =
            to_raw_dimension(static_cast<std::int64_t>(get_list_items(*match.symbols[s])->size()));
      }
    }
    return out;
  }

  [[nodiscard]] std::int64_t to_parameter_value(const std::string& type, const std::string& symbol,
                                                const Expression& value) const {
    if (symbol == "parallel_degree" && value.operation == Operation::kSymbol) return 2;
    if (symbol == "acti") {
      for (std::int64_t i = 0; i < std::ssize(kActivations); ++i) {
        if (value == Expression{.literal = std::string(kActivations[i])}) return i;
      }
      throw Lacking(fmt::format("{}: PM_ACTI cannot be {}", type, to_text(rule_, value)));
    }
    if (symbol == "perm") {
      if (const auto perm = get_list_items(value)) return encode_permutation(*perm);
    }
    const auto n = as_integer_literal(value);
    if (!n) {
      throw Lacking(fmt::format("{}: {} is {}, but must be a number", type,
                                to_parameter_name(symbol), to_text(rule_, value)));
    }
    const bool dimension = symbol == "axis" || symbol == "parallel_dim" || symbol == "softmax_dim";
    return dimension ? to_raw_dimension(*n) : *n;
  }

  [[nodiscard]] std::int64_t encode_permutation(const std::vector<Expression>& perm) const {
    const auto rank = to_raw_dimension(std::ssize(perm));
    std::int64_t out = 0;  // the replica dimension stays
    for (const auto& d : perm) {
      const auto n = as_integer_literal(d);
      if (!n) throw Lacking("transpose: the permutation has symbols, but must have numbers");
      out = out * rank + to_raw_dimension(*n);
    }
    return out;
  }

  const Rule& rule_;
  std::vector<std::uint16_t> shapes_;
  const Side& side_;
  const std::vector<CollectionTensor>& variables_;
  PatternSizes::KnownPatternSizes known_;
  PatternSizes sizes_;
  Dimensions dimensions_;
  std::vector<CollectionOperator> operators_;
  std::map<PatternId, CollectionTensor> values_;
};

// Returns the tensor that import calls `name`: ?x1, ?w4 and ?x1_1 are tensors -1, -4 and output 1
// of -1. Returns nullopt for other names.
std::optional<CollectionTensor> parse_tensor_name(const std::string& name) {
  if (name.empty() || (name[0] != 'x' && name[0] != 'w')) return std::nullopt;
  const auto line = name.find('_');
  const auto op =
      parse_int(std::string_view(name).substr(1, line == std::string::npos ? line : line - 1));
  const auto output =
      line == std::string::npos ? 0 : parse_int(std::string_view(name).substr(line + 1));
  constexpr std::int64_t kLargest = 1000;
  if (!op || !output || *op < 1 || *op > kLargest || *output < 0) return std::nullopt;
  return CollectionTensor{-*op, *output};
}

std::vector<CollectionTensor> name_variables(const Rule& rule) {
  std::vector<CollectionTensor> out;
  out.reserve(rule.tensors.size());
  for (const auto& name : rule.tensors) {
    const auto tensor = parse_tensor_name(name);
    if (!tensor || std::ranges::find(out, *tensor) != out.end()) break;
    out.push_back(*tensor);
  }
  if (out.size() == rule.tensors.size()) return out;
  out.clear();
  for (std::int64_t i = 1; out.size() < rule.tensors.size(); ++i) out.push_back({-i, 0});
  return out;
}

}  // namespace

CollectionRule to_collection_rule(const Rule& rule, Dimensions dimensions) {
  CollectionRule out{.name = rule.name, .source = {}, .target = {}, .outputs = {}};
  const auto variables = name_variables(rule);
  Ranks ranks(rule.tensors.size());
  for (const auto& condition : rule.conditions) {
    if (condition.operation != Operation::kEqual ||
        condition.operands[0].operation != Operation::kRank) {
      continue;
    }
    const auto rank = as_integer_literal(condition.operands[1]);
    if (rank && *rank >= 0) {
      ranks[condition.operands[0].variables[0]] = static_cast<std::size_t>(*rank);
    }
  }
  // Two rounds, because ranks found on one side also hold on the other.
  for (int round = 0; round < 2; ++round) {
    for (const auto* side : {&rule.source, &rule.target}) {
      const PatternSizes::KnownPatternSizes known{
          .ranks = {}, .sizes = {}, .stretched = find_stretched_nodes(rule, *side)};
      (void)PatternSizes(*side, ranks, known);
    }
  }
  SideExport source(rule, rule.source, variables, ranks, dimensions);
  SideExport target(rule, rule.target, variables, ranks, dimensions);
  for (std::size_t i = 0; i < rule.source.outputs.size(); ++i) {
    out.outputs.push_back(
        {source.export_node(rule.source.outputs[i]), target.export_node(rule.target.outputs[i])});
  }
  out.source = source.take();
  out.target = target.take();
  return out;
}

}  // namespace tandem::import

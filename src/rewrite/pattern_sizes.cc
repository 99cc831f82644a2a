#include "rewrite/pattern_sizes.h"

#include <algorithm>

#include "base/text.h"
#include "ops/registry.h"

namespace tandem::rewrite {

namespace {

// Names of dimensions. "..." is one of them, at index `rest`. If there is none, `rest` is past the
// end.
struct IndexTextDims {
  std::vector<std::string> names;
  std::size_t rest = 0;

  [[nodiscard]] std::size_t size() const { return names.size(); }
  [[nodiscard]] bool has_rest() const { return rest != names.size(); }
};

// Index text split into dimensions, such as "b (g c) 2y+r-1, k -> b".
struct IndexDims {
  std::vector<IndexTextDims> operands;
  IndexTextDims result;
};

IndexTextDims parse_dimensions(std::string_view text) {
  std::vector<std::string> out;
  int depth = 0;
  bool open = false;
  for (char c : text) {
    if (c == '!') continue;
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (c == ' ' && depth == 0) {
      open = false;
      continue;
    }
    if (!open) out.emplace_back();
    open = true;
    out.back() += c;
  }
  const auto rest = static_cast<std::size_t>(std::ranges::find(out, "...") - out.begin());
  return {std::move(out), rest};
}

// Splits the documented index text of an operator. A text that depends on attributes is only an
// example. For this reason, callers compare names of dimensions and do not take sizes from it.
IndexDims read_index(const ops::OpSpec& spec) {
  IndexDims out;
  const auto arrow = spec.index.find("->");
  if (arrow == std::string::npos) return out;
  const std::string_view text = spec.index;
  for (auto operand : split(text.substr(0, arrow), ','))
    out.operands.push_back(parse_dimensions(operand));
  auto result = text.substr(arrow + 2);
  out.result = parse_dimensions(result.substr(0, result.find('|')));
  return out;
}

const IndexDims& get_index_dims(const ops::OpSpec& spec) {
  static const auto all = [] {
    std::map<const ops::OpSpec*, IndexDims> out;
    for (const auto* s : ops::all_ops()) out.emplace(s, read_index(*s));
    return out;
  }();
  return all.at(&spec);
}

bool is_concat(const PatternNode& node) { return node.spec == &ops::kConcat; }
// Returns whether the index text of the node's operator is an example of one rank.
bool has_example_text(const PatternNode& node) {
  const auto* s = node.spec;
  return s == &ops::kTranspose || s == &ops::kReshape || s == &ops::kExpand ||
         s == &ops::kFlatten || s == &ops::kSplit || s == &ops::kSlice || s == &ops::kPad ||
         s == &ops::kConcat || s == &ops::kAppend || s == &ops::kContract ||
         s == &ops::kReduceSum || s == &ops::kReduceMean || s == &ops::kReduceMax ||
         s == &ops::kConstant;
}

const Expression* find_attribute(const PatternNode& node, std::string_view name) {
  for (std::size_t i = 0; i < node.attributes.size(); ++i) {
    if (node.spec->attributes[i].first == name) return &node.attributes[i];
  }
  return nullptr;
}

std::optional<std::size_t> as_unsigned_literal(const Expression* e) {
  if (e == nullptr || e->operation != Operation::kLiteral) return std::nullopt;
  const auto* value = std::get_if<std::int64_t>(&e->literal);
  if (value == nullptr || *value < 0) return std::nullopt;
  return static_cast<std::size_t>(*value);
}

std::vector<std::int64_t> as_integer_list(const Expression* e) {
  if (e == nullptr || e->operation != Operation::kLiteral) return {};
  const auto* list = std::get_if<std::vector<std::int64_t>>(&e->literal);
  return list == nullptr ? std::vector<std::int64_t>{} : *list;
}

constexpr int kMaxParts = 200;  // larger expressions count as unknown
int count_parts(const Expression& expression) {
  int out = 0;
  for_each_part(expression, [&](const Expression&) { ++out; });
  return out;
}

std::size_t compute_rest_width(std::size_t rank, const IndexTextDims& dims) {
  return rank - (dims.size() - 1);
}

// Returns the size after padding. Example: n with (k - n) / 2 on both sides -> k.
Expression add_padding(Expression size, const Expression& before, const Expression& after) {
  if (before == after && before.operation == Operation::kDivide &&
      before.operands[1] == make_literal(2)) {
    const auto& missing = before.operands[0];
    if (missing.operation == Operation::kSubtract && missing.operands[1] == size) {
      return missing.operands[0];
    }
  }
  size = make_folded_operation(Operation::kAdd, std::move(size), before);
  return make_folded_operation(Operation::kAdd, std::move(size), after);
}

// Position of an axis in `dims` for a tensor of this rank: the name's index and the offset in
// "...".
struct Insertion {
  std::size_t at;
  std::size_t into_rest;
};
std::optional<Insertion> find_axis_position(const IndexTextDims& dims, std::size_t rank,
                                            std::size_t axis) {
  const auto rest = dims.rest;
  if (!dims.has_rest())
    return axis < dims.size() ? std::optional(Insertion{axis, 0}) : std::nullopt;
  if (rank + 1 < dims.size()) return std::nullopt;
  const auto width = compute_rest_width(rank, dims);
  if (axis < rest) return Insertion{axis, 0};
  if (axis < rest + width) return Insertion{rest, axis - rest};
  return Insertion{axis - width + 1, 0};
}

}  // namespace

Expression make_literal(std::int64_t value) { return {.literal = value}; }

Expression make_dim(std::uint16_t variable, std::int64_t dimension) {
  auto out = make_expression(Operation::kDim, make_literal(dimension));
  out.variables.push_back(variable);
  return out;
}

Expression make_folded_operation(Operation operation, Expression a, Expression b) {
  const bool known = a.operation == Operation::kLiteral && b.operation == Operation::kLiteral;
  auto out = make_expression(operation, std::move(a), std::move(b));
  const auto value = known ? evaluate(out, {}) : std::nullopt;
  return value ? Expression{.literal = *value} : out;
}

PatternSizes::PatternSizes(const Side& side, Ranks& variables, const KnownPatternSizes& known)
    : side_(side), known_(known), ranks_(side.nodes.size()) {
  for (const auto& [id, rank] : known.ranks) (void)set_rank(id, rank);
  for (bool grown = true; grown;) {
    grown = false;
    for (std::size_t i = 0; i < side.nodes.size(); ++i) {
      if (relax(static_cast<PatternId>(i), variables)) grown = true;
    }
  }
}

bool PatternSizes::is_stretched(PatternId id) const {
  return std::ranges::find(known_.stretched, id) != known_.stretched.end();
}

std::optional<std::size_t> PatternSizes::rank(PatternId id) const { return ranks_[id]; }

bool PatternSizes::set_rank(PatternId id, std::optional<std::size_t> rank) {
  if (ranks_[id] && rank && *ranks_[id] != *rank) is_consistent_ = false;
  if (ranks_[id] || !rank || *rank > Shape::kMaxRank) return false;
  ranks_[id] = rank;
  return true;
}

bool PatternSizes::relax(PatternId id, Ranks& variables) {
  const auto& node = side_.nodes[id];
  if (node.is_variable()) {
    auto& known = variables[node.variable];
    const bool grown = set_rank(id, known);
    if (known || !ranks_[id]) return grown;
    known = ranks_[id];
    return true;
  }
  const auto* s = node.spec;
  bool grown = false;
  const bool keeps = s == &ops::kConcat || s == &ops::kSplit || s == &ops::kSlice ||
                     s == &ops::kPad || s == &ops::kTranspose || s == &ops::kAppend;
  if (keeps) {
    for (auto input : node.inputs) {
      grown = set_rank(input, ranks_[id]) || grown;
      grown = set_rank(id, ranks_[input]) || grown;
    }
  }
  if (s == &ops::kTranspose) {
    const auto perm = as_integer_list(find_attribute(node, "perm"));
    if (!perm.empty()) grown = set_rank(id, perm.size()) || grown;
  }
  if (s == &ops::kReshape || s == &ops::kConstant) {
    const auto* shape = find_attribute(node, "shape");
    if (shape->operation == Operation::kList) {
      grown = set_rank(id, shape->operands.size()) || grown;
    }
  }
  return has_example_text(node) ? grown : relax_text(id) || grown;
}

bool PatternSizes::relax_text(PatternId id) {
  const auto& node = side_.nodes[id];
  const bool first_only = is_stretched(id);
  const auto& text = get_index_dims(*node.spec);
  bool grown = false;
  const bool alone =
      known_.of_one_rank || std::ranges::count_if(text.operands, &IndexTextDims::has_rest) < 2;
  if (!text.result.has_rest() && text.result.size() > 0) grown = set_rank(id, text.result.size());
  for (std::size_t i = 0; i < std::min(node.inputs.size(), text.operands.size()); ++i) {
    const auto& dims = text.operands[i];
    const auto input = node.inputs[i];
    if (!dims.has_rest()) {
      grown = set_rank(input, dims.size()) || grown;
      continue;
    }
    if (!text.result.has_rest() || (first_only && i > 0) || !alone) continue;
    if (const auto& out = ranks_[id]; out && *out + 1 >= text.result.size()) {
      grown = set_rank(input, compute_rest_width(*out, text.result) + dims.size() - 1) || grown;
    }
    if (const auto& in = ranks_[input]; in && *in + 1 >= dims.size()) {
      grown = set_rank(id, compute_rest_width(*in, dims) + text.result.size() - 1) || grown;
    }
  }
  return grown;
}

// Returns the dimensions of operands that have the same size as `axis`, the first operand's first.
std::vector<PatternSizes::Origin> PatternSizes::find_origins(PatternId id, std::size_t axis) const {
  const auto& node = side_.nodes[id];
  std::vector<Origin> out;
  if (!ranks_[id] || axis >= *ranks_[id]) return out;
  if (node.spec == &ops::kTranspose) {
    const auto perm = as_integer_list(find_attribute(node, "perm"));
    if (axis < perm.size()) out.push_back({node.inputs[0], static_cast<std::size_t>(perm[axis])});
    return out;
  }
  if (const auto changed = as_unsigned_literal(find_attribute(node, "axis"));
      changed && *changed != axis &&
      (is_concat(node) || node.spec == &ops::kSlice || node.spec == &ops::kSplit ||
       node.spec == &ops::kPad)) {
    for (auto input : node.inputs) out.push_back({input, axis});
    return out;
  }
  if (has_example_text(node)) return out;
  const auto& text = get_index_dims(*node.spec);
  const auto at = find_axis_position(text.result, *ranks_[id], axis);
  if (!at) return out;
  const auto& name = text.result.names[at->at];
  for (std::size_t i = 0; i < std::min(node.inputs.size(), text.operands.size()); ++i) {
    const auto& dims = text.operands[i];
    const auto found =
        static_cast<std::size_t>(std::ranges::find(dims.names, name) - dims.names.begin());
    if (found == dims.size()) continue;
    const auto rest = dims.rest;
    auto place = found;
    if (found == rest) place += at->into_rest;
    if (rest < found) {
      if (!ranks_[node.inputs[i]] || *ranks_[node.inputs[i]] + 1 < dims.size()) continue;
      place += compute_rest_width(*ranks_[node.inputs[i]], dims) - 1;
    }
    out.push_back({node.inputs[i], place});
    if (is_stretched(id)) break;
  }
  return out;
}

std::optional<Expression> PatternSizes::size(PatternId id, std::size_t axis) const {
  if (const auto known = known_.sizes.find({id, axis}); known != known_.sizes.end()) {
    return known->second;
  }
  const auto [at, fresh] = sizes_.try_emplace({id, axis});
  if (!fresh) return at->second;
  auto found = find_size(id, axis);
  if (found && count_parts(*found) <= kMaxParts) at->second = std::move(found);
  return at->second;
}

std::vector<Expression> PatternSizes::parts(PatternId id, std::size_t axis) const {
  const auto [at, fresh] = parts_.try_emplace({id, axis});
  if (fresh) at->second = find_parts(id, axis);
  return at->second;
}

std::optional<Expression> PatternSizes::find_size(PatternId id, std::size_t axis) const {
  const auto& node = side_.nodes[id];
  if (node.is_variable()) return make_dim(node.variable, static_cast<std::int64_t>(axis));
  if (is_concat(node) && as_unsigned_literal(find_attribute(node, "axis")) == axis) {
    std::optional<Expression> sum;
    for (auto input : node.inputs) {
      auto part = size(input, axis);
      if (!part) return std::nullopt;
      sum = sum ? make_folded_operation(Operation::kAdd, std::move(*sum), std::move(*part))
                : std::move(part);
    }
    return sum;
  }
  if (node.spec == &ops::kSlice && as_unsigned_literal(find_attribute(node, "axis")) == axis) {
    return *find_attribute(node, "size");
  }
  if (node.spec == &ops::kSplit && as_unsigned_literal(find_attribute(node, "axis")) == axis) {
    auto all = size(node.inputs[0], axis);
    if (!all) return std::nullopt;
    return make_folded_operation(Operation::kDivide, std::move(*all),
                                 *find_attribute(node, "parts"));
  }
  if (node.spec == &ops::kPad && as_unsigned_literal(find_attribute(node, "axis")) == axis) {
    auto all = size(node.inputs[0], axis);
    if (!all) return std::nullopt;
    return add_padding(std::move(*all), *find_attribute(node, "before"),
                       *find_attribute(node, "after"));
  }
  if (node.spec == &ops::kReshape || node.spec == &ops::kConstant) {
    const auto* shape = find_attribute(node, "shape");
    if (shape->operation == Operation::kList && axis < shape->operands.size()) {
      return shape->operands[axis];
    }
  }
  for (const auto& [operand, its_axis] : find_origins(id, axis)) {
    if (auto found = size(operand, its_axis)) return found;
  }
  return std::nullopt;
}

std::vector<Expression> PatternSizes::find_parts(PatternId id, std::size_t axis) const {
  const auto& node = side_.nodes[id];
  if (node.is_variable()) return {};
  if (is_concat(node) && as_unsigned_literal(find_attribute(node, "axis")) == axis) {
    std::vector<Expression> out;
    for (auto input : node.inputs) {
      auto part = size(input, axis);
      if (!part) return {};
      out.push_back(std::move(*part));
    }
    return out;
  }
  for (const auto& [operand, its_axis] : find_origins(id, axis)) {
    if (auto found = parts(operand, its_axis); !found.empty()) return found;
  }
  return {};
}

}  // namespace tandem::rewrite

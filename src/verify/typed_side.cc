#include "verify/typed_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/text.h"
#include "graph/graph.h"

namespace tandem::verify {

namespace {

void append(std::vector<std::uint64_t>& key, const TensorType& type) {
  const auto& s = type.shape;
  key.push_back(s.rank() | static_cast<std::uint64_t>(type.dtype) << 8U |
                static_cast<std::uint64_t>(s.monoid) << 16U);
  for (auto n : s.sizes) key.push_back(static_cast<std::uint64_t>(n));
  for (auto n : s.degrees) key.push_back(static_cast<std::uint64_t>(n));
  key.push_back(static_cast<std::uint64_t>(s.replicas));
  key.push_back(static_cast<std::uint64_t>(s.partial));
  key.push_back(std::bit_cast<std::uint64_t>(type.density));
}

std::vector<const TensorType*> pointers(const Instance& instance) {
  std::vector<const TensorType*> out;
  out.reserve(instance.tensors.size());
  for (const auto& t : instance.tensors) out.push_back(&t);
  return out;
}

using TypeId = TypeTable::TypeId;

// By node; empty where the side does not type-check.
std::vector<TypeId> node_types(const Side& side, const Instance& instance,
                               std::span<const TensorType* const> tensors,
                               std::vector<std::optional<ops::Op>>* ops) {
  auto& table = TypeTable::of_thread();
  std::vector<TypeId> out;
  out.reserve(side.nodes.size());
  std::vector<TypeId> inputs;
  for (const auto& node : side.nodes) {
    if (node.is_variable()) {
      out.push_back(table.intern(instance.tensors[node.variable]));
      if (ops != nullptr) ops->emplace_back();
      continue;
    }
    const auto op = table.op(node, {tensors, instance.symbols});
    if (!op) return {};
    inputs.clear();
    for (auto i : node.inputs) inputs.push_back(out[i]);
    out.push_back(table.result(*op, inputs));
    if (out.back() == TypeTable::kNone) return {};
    if (ops != nullptr) ops->push_back(op);
  }
  return out;
}

}  // namespace

std::string to_text(const Rule& rule, const Instance& instance) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < instance.tensors.size(); ++i) {
    const auto& type = instance.tensors[i];
    const bool plain = type.dtype == DType::kFp32;
    parts.push_back(fmt::format("?{} {}{}{}", rule.tensors[i], to_text(type.shape),
                                plain ? "" : " ", plain ? "" : name(type.dtype)));
  }
  for (std::size_t i = 0; i < instance.symbols.size(); ++i) {
    if (!instance.symbols[i]) continue;
    parts.push_back(
        fmt::format("?{} = {}", rule.symbols[i], rewrite::to_text(*instance.symbols[i])));
  }
  return join(parts, ", ");
}

std::optional<TypedSide> type_side(const Side& side, const Instance& instance) {
  const auto tensors = pointers(instance);
  std::vector<std::optional<ops::Op>> ops;
  ops.reserve(side.nodes.size());
  const auto types = node_types(side, instance, tensors, &ops);
  if (types.empty()) return std::nullopt;
  const auto& table = TypeTable::of_thread();
  TypedSide out;
  out.nodes.reserve(side.nodes.size());
  for (std::size_t n = 0; n < side.nodes.size(); ++n) {
    const auto& node = side.nodes[n];
    out.nodes.push_back({ops[n], node.variable, node.inputs, table.type(types[n])});
  }
  out.outputs = side.outputs;
  return out;
}

Fit fit_of(const Rule& rule, const Instance& instance) {
  const auto tensors = pointers(instance);
  const auto source = node_types(rule.source, instance, tensors, nullptr);
  if (source.empty()) return Fit::kNotEvenSource;
  const auto target = node_types(rule.target, instance, tensors, nullptr);
  if (target.empty()) return Fit::kSourceOnly;
  for (std::size_t i = 0; i < rule.source.outputs.size(); ++i) {
    if (source[rule.source.outputs[i]] != target[rule.target.outputs[i]]) return Fit::kSourceOnly;
  }
  return Fit::kBoth;
}

bool fit_of_source(const Rule& rule, const Instance& instance) {
  return !node_types(rule.source, instance, pointers(instance), nullptr).empty();
}

bool conditions_hold(const Rule& rule, const Instance& instance) {
  const auto tensors = pointers(instance);
  for (const auto& condition : rule.conditions) {
    if (!rewrite::holds(condition, {tensors, instance.symbols})) return false;
  }
  return true;
}

TypeTable& TypeTable::of_thread() {
  static thread_local TypeTable table;
  return table;
}

std::size_t TypeTable::KeyHash::operator()(const Key& key) const {
  Hash h = key.size();
  for (auto word : key) h = (h ^ word) * 0x9e3779b97f4a7c15ULL + (h >> 29U);
  return mix(h);
}

TypeTable::TypeId TypeTable::intern(const TensorType& type) {
  key_.clear();
  append(key_, type);
  const auto [at, is_new] = ids_.try_emplace(key_, static_cast<TypeId>(types_.size()));
  const auto id = at->second;
  if (!is_new) return id;
  types_.push_back(type);
  whole_.push_back(id);
  if (type.shape.devices() == 1) return id;
  auto whole = type;
  whole.shape = ParallelShape(type.shape.sizes);
  whole_[id] = intern(whole);
  return id;
}

TypeTable::TypeId TypeTable::result(const ops::Op& op, std::span<const TypeId> inputs) {
  // Interned operators never move, so the address of the attributes names the operator.
  if (inputs.size() > Result::kMostInputs) {
    Key key{reinterpret_cast<std::uint64_t>(op.raw())};
    key.insert(key.end(), inputs.begin(), inputs.end());
    if (const auto at = long_results_.find(key); at != long_results_.end()) return at->second;
    const auto out = made(op, inputs);
    long_results_.emplace(std::move(key), out);
    return out;
  }
  Result asked;
  asked.op = op.raw();
  std::ranges::copy(inputs, asked.inputs.begin());
  if (const auto& known = place(asked); known.op != nullptr) return known.result;
  asked.result = made(op, inputs);
  if (++results_used_ * 2 > results_.size()) grow();
  return (place(asked) = asked).result;
}

TypeTable::Result& TypeTable::place(const Result& of) {
  Hash h = reinterpret_cast<std::uint64_t>(of.op);
  for (auto i : of.inputs) h = mix(h ^ i);
  for (auto at = h & (results_.size() - 1);; at = (at + 1) & (results_.size() - 1)) {
    auto& there = results_[at];
    if (there.op == nullptr || (there.op == of.op && there.inputs == of.inputs)) return there;
  }
}

void TypeTable::grow() {
  std::vector<Result> old(results_.size() * 2);
  std::swap(old, results_);
  for (const auto& result : old) {
    if (result.op != nullptr) place(result) = result;
  }
}

TypeTable::TypeId TypeTable::made(const ops::Op& op, std::span<const TypeId> inputs) {
  // What does not fit whole does not fit divided: asked once, not for every division.
  const auto is_whole = [&](TypeId id) { return whole_[id] == id; };
  if (op.role() == ops::Role::kCompute && !std::ranges::all_of(inputs, is_whole)) {
    std::vector<TypeId> whole;
    whole.reserve(inputs.size());
    for (auto i : inputs) whole.push_back(whole_[i]);
    if (result(op, whole) == kNone) return kNone;
  }
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (auto i : inputs) types.push_back(types_[i]);
  try {
    return intern(graph::tried_result_type(op, types));
  } catch (const UserError&) {
    return kNone;  // the operands do not fit, which is an answer
  }
}

namespace {

void append(std::vector<std::uint64_t>& key, const Value& value) {
  key.push_back(value.index());
  if (const auto* i = std::get_if<std::int64_t>(&value)) {
    key.push_back(static_cast<std::uint64_t>(*i));
  } else if (const auto* d = std::get_if<double>(&value)) {
    key.push_back(std::bit_cast<std::uint64_t>(*d));
  } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
    key.push_back(list->size());
    for (auto n : *list) key.push_back(static_cast<std::uint64_t>(n));
  } else {
    const auto& text = std::get<std::string>(value);
    key.push_back(text.size());
    for (auto c : text) key.push_back(static_cast<unsigned char>(c));
  }
}

}  // namespace

std::optional<ops::Op> TypeTable::op(const rewrite::PatternNode& node,
                                     const rewrite::Bindings& bindings) {
  key_.clear();
  key_.push_back(reinterpret_cast<std::uint64_t>(node.spec));
  values_.clear();
  for (const auto& attribute : node.attributes) {
    if (attribute.operation == rewrite::Operation::kLiteral) {
      append(key_, attribute.literal);
      continue;
    }
    auto value = rewrite::evaluate(attribute, bindings);
    if (!value) return std::nullopt;
    append(key_, *value);
    values_.push_back(std::move(*value));
  }
  if (const auto at = ops_.find(key_); at != ops_.end()) return at->second;
  ops::AttributeList list;
  list.reserve(node.attributes.size());
  std::size_t computed = 0;
  for (std::size_t i = 0; i < node.attributes.size(); ++i) {
    const auto& attribute = node.attributes[i];
    const bool literal = attribute.operation == rewrite::Operation::kLiteral;
    list.emplace_back(node.spec->attributes[i].first,
                      rewrite::to_text(literal ? attribute.literal : values_[computed++]));
  }
  std::optional<ops::Op> out;
  try {
    out = ops::parse_op(*node.spec, list);
  } catch (const UserError&) {
    out.reset();
  }
  ops_.emplace(key_, out);
  return out;
}

}  // namespace tandem::verify

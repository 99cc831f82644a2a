#include "verify/typed_side.h"

#include <fmt/format.h>

#include "base/text.h"

namespace tandem::verify {

namespace {

std::vector<const TensorType*> pointers(const Instance& instance) {
  std::vector<const TensorType*> out;
  out.reserve(instance.tensors.size());
  for (const auto& t : instance.tensors) out.push_back(&t);
  return out;
}

using TypeId = TypeTable::TypeId;

// By node, up to the first that does not fit.
std::vector<TypeId> fitting_types(const Side& side, const Instance& instance,
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
    if (!op) return out;
    inputs.clear();
    for (auto i : node.inputs) inputs.push_back(out[i]);
    const auto type = table.result(*op, inputs);
    if (type == TypeTable::kNone) return out;
    out.push_back(type);
    if (ops != nullptr) ops->push_back(op);
  }
  return out;
}

// By node; empty where the side does not type-check.
std::vector<TypeId> node_types(const Side& side, const Instance& instance,
                               std::span<const TensorType* const> tensors,
                               std::vector<std::optional<ops::Op>>* ops) {
  auto out = fitting_types(side, instance, tensors, ops);
  if (out.size() < side.nodes.size()) out.clear();
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

}  // namespace tandem::verify

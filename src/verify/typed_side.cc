#include "verify/typed_side.h"

#include <fmt/format.h>

#include "base/text.h"

namespace tandem::verify {

namespace {

std::vector<const TensorType*> collect_pointers(const Instance& instance) {
  std::vector<const TensorType*> out;
  out.reserve(instance.tensors.size());
  for (const auto& t : instance.tensors) out.push_back(&t);
  return out;
}

}  // namespace

Hash hash_instance(const Instance& instance) {
  Hash h = 0;
  for (const auto& type : instance.tensors) h = hash_combine(h, hash_type(type));
  for (const auto& value : instance.symbols) h = hash_combine(h, rewrite::compute_hash(*value));
  return h;
}

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
  auto& table = TypeTable::get_thread_local();
  const auto tensors = collect_pointers(instance);
  std::vector<TypeTable::TypeId> types;
  types.reserve(side.nodes.size());
  std::vector<TypeTable::TypeId> inputs;
  TypedSide out;
  out.nodes.reserve(side.nodes.size());
  for (const auto& node : side.nodes) {
    std::optional<ops::Op> op;
    if (node.is_variable()) {
      types.push_back(table.intern(instance.tensors[node.variable]));
    } else {
      op = table.make_op(node, {tensors, instance.symbols});
      if (!op) return std::nullopt;
      inputs.clear();
      for (auto i : node.inputs) inputs.push_back(types[i]);
      types.push_back(table.infer_result_type(*op, inputs));
      if (types.back() == TypeTable::kNone) return std::nullopt;
    }
    out.nodes.push_back({op, node.variable, node.inputs, table.type(types.back())});
  }
  out.outputs = side.outputs;
  return out;
}

}  // namespace tandem::verify

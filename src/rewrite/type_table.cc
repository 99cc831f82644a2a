#include "rewrite/type_table.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "graph/try_infer_type.h"
#include "ops/rank_error.h"

namespace tandem::rewrite {

TypeTable& TypeTable::get_thread_local() {
  static thread_local TypeTable table;
  return table;
}

std::size_t TypeTable::KeyHash::operator()(const Key& key) const {
  Hash h = key.size();
  for (auto word : key) h = (h ^ word) * 0x9e3779b97f4a7c15ULL + (h >> 29U);
  return mix(h);
}

TypeTable::TypeId TypeTable::intern(const TensorType& type) {
  const auto hash = hash_type(type);
  auto& recent = recent_types_[hash >> kRecentTypesShift];
  if (recent.id == kNone || recent.type != type) recent = {type, find_or_add_type(type, hash)};
  return recent.id;
}

TypeTable::TypeId TypeTable::find_or_add_type(const TensorType& type, Hash hash) {
  const auto next = static_cast<TypeId>(types_.size());
  const auto id = ids_.find_or_add(hash, next, [&](TypeId known) { return types_[known] == type; });
  if (id != next) return id;
  types_.push_back(type);
  whole_.push_back(id);
  ranks_.push_back(static_cast<std::uint8_t>(type.shape.rank()));
  if (type.shape.device_count() == 1) return id;
  auto whole = type;
  whole.shape = ParallelShape(type.shape.sizes);
  whole_[id] = intern(whole);
  return id;
}

Hash TypeTable::compute_ranks_hash(const ops::Op& op, std::span<const TypeId> inputs) const {
  std::uint64_t ranks = 1;  // four bits for each
  for (auto i : inputs) ranks = ranks << 4U | ranks_[i];
  return hash_combine(reinterpret_cast<std::uint64_t>(op.raw()), ranks);
}

TypeTable::TypeId TypeTable::infer_result_type(const ops::Op& op, std::span<const TypeId> inputs) {
  // Interned operators never move, so the address of the attributes identifies the operator.
  if (inputs.size() > CachedResultType::kMostInputs) {
    Key key{reinterpret_cast<std::uint64_t>(op.raw())};
    key.insert(key.end(), inputs.begin(), inputs.end());
    if (const auto at = long_results_.find(key); at != long_results_.end()) return at->second;
    const auto out = compute_result_type(op, inputs);
    long_results_.emplace(std::move(key), out);
    return out;
  }
  CachedResultType asked;
  asked.op = op.raw();
  std::ranges::copy(inputs, asked.inputs.begin());
  const auto hash = asked.hash();
  auto& recent = recent_[hash >> kRecentShift];
  if (!recent.is_same_query(asked)) {
    asked.result = find_result_type(op, inputs, asked, hash);
    recent = asked;
  }
  return recent.result;
}

TypeTable::TypeId TypeTable::find_result_type(const ops::Op& op, std::span<const TypeId> inputs,
                                              const CachedResultType& asked, Hash hash) {
  const auto ranks = compute_ranks_hash(op, inputs);
  if (misfits_.contains(ranks)) return kNone;
  if (const auto& known = find_entry(asked, hash); known.op != nullptr) return known.result;
  auto found = asked;
  found.result = compute_result_type(op, inputs);
  if (found.result == kNone && misfits_.contains(ranks)) return kNone;
  if (results_used_ * 2 >= results_.size()) grow();
  ++results_used_;
  return (find_entry(found, hash) = found).result;
}

Hash TypeTable::CachedResultType::hash() const {
  auto h = reinterpret_cast<std::uint64_t>(op);
  for (auto i : inputs) h = (h ^ i) * 0x9e3779b97f4a7c15ULL + (h >> 29U);
  return mix(h);
}

TypeTable::CachedResultType& TypeTable::find_entry(const CachedResultType& of, Hash hash) {
  for (auto at = hash & (results_.size() - 1);; at = (at + 1) & (results_.size() - 1)) {
    auto& there = results_[at];
    if (there.op == nullptr || there.is_same_query(of)) return there;
  }
}

void TypeTable::grow() {
  // Randomly drawn sizes occur only once, so their results must not fill the memory.
  if (results_.size() == most_results_) {
    std::ranges::fill(results_, CachedResultType{});
    results_used_ = 0;
    return;
  }
  std::vector<CachedResultType> old(results_.size() * 2);
  std::swap(old, results_);
  for (const auto& result : old) {
    if (result.op != nullptr) find_entry(result, result.hash()) = result;
  }
}

TypeTable::TypeId TypeTable::compute_result_type(const ops::Op& op,
                                                 std::span<const TypeId> inputs) {
  // Operands that do not fit unsharded do not fit sharded. This query is cached once for all
  // shardings.
  const auto is_whole = [&](TypeId id) { return whole_[id] == id; };
  if (op.role() == ops::Role::kCompute && !std::ranges::all_of(inputs, is_whole)) {
    std::vector<TypeId> whole;
    whole.reserve(inputs.size());
    for (auto i : inputs) whole.push_back(whole_[i]);
    if (infer_result_type(op, whole) == kNone) return kNone;
  }
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (auto i : inputs) types.push_back(types_[i]);
  try {
    const auto type = graph::try_infer_type(op, types);
    return type ? intern(*type) : kNone;
  } catch (const ops::RankError&) {
    if (inputs.size() <= CachedResultType::kMostInputs)
      misfits_.insert(compute_ranks_hash(op, inputs));
    return kNone;
  } catch (const UserError&) {
    return kNone;  // the misfit is the result
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

std::optional<ops::Op> TypeTable::make_op(const PatternNode& node, const Bindings& bindings) {
  key_.clear();
  key_.push_back(reinterpret_cast<std::uint64_t>(node.spec));
  values_.clear();
  for (const auto& attribute : node.attributes) {
    if (attribute.operation == Operation::kLiteral) {
      append(key_, attribute.literal);
      continue;
    }
    auto value = evaluate(attribute, bindings);
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
    const bool literal = attribute.operation == Operation::kLiteral;
    list.emplace_back(node.spec->attributes[i].first,
                      to_text(literal ? attribute.literal : values_[computed++]));
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

}  // namespace tandem::rewrite

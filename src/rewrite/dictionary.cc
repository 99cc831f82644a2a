#include "rewrite/dictionary.h"

#include <algorithm>

#include "graph/graph.h"
#include "graph/text.h"
#include "ops/registry.h"

namespace tandem::rewrite {

namespace {

using NameValue = std::pair<std::string, std::string>;

// Returns the number of `item` among `items`. Calls `add` first if it is new.
template <class Id, class Items, class Item, class Add>
Id find_or_add(std::vector<Id>& same_hash, const Items& items, const Item& item, const Add& add) {
  for (auto id : same_hash) {
    if (items[id.index()] == item) return id;
  }
  add();
  same_hash.push_back(Id(items.size() - 1));
  return same_hash.back();
}

}  // namespace

std::vector<Value> parse_attribute_values(const ops::Op& op) {
  // An operator's text lists only what differs from the defaults.
  const auto given = graph::split_attributes(op.attribute_text());
  CHECK(given.has_value(), op.name(), op.attribute_text());
  std::vector<Value> out;
  out.reserve(op.spec().attributes.size());
  for (const auto& initial : op.spec().attributes) {
    const auto at = std::ranges::find(*given, initial.first, &NameValue::first);
    out.push_back(parse_value(at == given->end() ? initial.second : at->second));
  }
  return out;
}

Dictionary::Dictionary() {
  for (const auto* spec : ops::all_ops()) specs_.emplace(spec, SpecId(specs_.size()));
}

OpId Dictionary::intern(const ops::Op& op) {
  auto& same_hash = ops_by_hash_[op.hash()];
  for (auto id : same_hash) {
    if (ops_[id.index()].op == op) return id;
  }
  OpEntry entry{.op = op, .spec = get_spec_id(op.spec()), .attributes = {}};
  for (const auto& value : parse_attribute_values(op)) entry.attributes.push_back(intern(value));
  ops_.push_back(std::move(entry));
  same_hash.push_back(OpId(ops_.size() - 1));
  return same_hash.back();
}

TypeId Dictionary::intern(const TensorType& type) {
  return find_or_add(types_by_hash_[hash_type(type)], types_, type,
                     [&] { types_.push_back(type); });
}

ValueId Dictionary::intern(const Value& value) {
  return find_or_add(values_by_hash_[rewrite::compute_hash(value)], values_, value,
                     [&] { values_.push_back(value); });
}

std::optional<OpId> Dictionary::make_op(const ops::OpSpec& spec,
                                        std::span<const ValueId> attributes) {
  key_.assign({get_spec_id(spec).value});
  for (auto value : attributes) key_.push_back(value.value);
  if (const auto known = ops_by_key_.find(key_); known != ops_by_key_.end()) return known->second;
  const auto key = key_;
  ops::AttributeList list;
  list.reserve(attributes.size());
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    list.emplace_back(spec.attributes[i].first, to_text(value(attributes[i])));
  }
  std::optional<OpId> out;
  try {
    out = intern(ops::parse_op(spec, list));
  } catch (const UserError&) {  // cached as nullopt
  }
  ops_by_key_.emplace(key, out);
  return out;
}

std::optional<TypeId> Dictionary::infer_result_type(OpId op, std::span<const TypeId> inputs) {
  key_.assign({op.value});
  for (auto type : inputs) key_.push_back(type.value);
  if (const auto known = results_.find(key_); known != results_.end()) return known->second;
  const auto key = key_;
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (auto input : inputs) types.push_back(type(input));
  std::optional<TypeId> out;
  try {
    out = intern(graph::infer_result_type(this->op(op), types));
  } catch (const UserError&) {  // cached as nullopt
  }
  results_.emplace(key, out);
  return out;
}

}  // namespace tandem::rewrite

// The words of the graphs that are rewritten: operators, attribute values and tensor types, each
// a number, and which type an operator gives which types. Numbers are compared where text would be.
// One dictionary serves all drafts of a search; it is not shared between threads.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "ops/op.h"
#include "rewrite/expression.h"
#include "tensor/tensor_type.h"

namespace tandem::rewrite {

using OpId = Id<struct OpTag>;
using ValueId = Id<struct ValueTag>;
using TypeId = Id<struct TypeTag>;
using SpecId = Id<struct SpecTag>;  // an operator without its attributes: its place in all_ops()

// All of the operator's attributes, in the order of OpSpec::attributes.
std::vector<Value> attribute_values(const ops::Op& op);

class Dictionary {
 public:
  Dictionary();

  OpId id_of(const ops::Op& op);
  TypeId id_of(const TensorType& type);
  ValueId id_of(const Value& value);
  [[nodiscard]] SpecId id_of(const ops::OpSpec& spec) const { return specs_.at(&spec); }

  [[nodiscard]] const ops::Op& op(OpId id) const { return ops_[id.index()].op; }
  [[nodiscard]] SpecId spec(OpId id) const { return ops_[id.index()].spec; }
  // In the order of OpSpec::attributes.
  [[nodiscard]] std::span<const ValueId> attributes(OpId id) const {
    return ops_[id.index()].attributes;
  }
  [[nodiscard]] const TensorType& type(TypeId id) const { return types_[id.index()]; }
  [[nodiscard]] const Value& value(ValueId id) const { return values_[id.index()]; }

  // The operator with these attributes; none where it takes no such values.
  std::optional<OpId> make(const ops::OpSpec& spec, std::span<const ValueId> attributes);
  // The type of the operator's result; none where the operands do not fit.
  std::optional<TypeId> result(OpId op, std::span<const TypeId> inputs);

 private:
  struct OpEntry {
    ops::Op op;
    SpecId spec;
    std::vector<ValueId> attributes;
  };
  using Key = std::vector<std::uint32_t>;
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      Hash h = key.size();
      for (auto part : key) h = hash_combine(h, part);
      return h;
    }
  };

  std::unordered_map<const ops::OpSpec*, SpecId> specs_;
  std::deque<OpEntry> ops_;
  std::deque<TensorType> types_;
  std::deque<Value> values_;
  std::unordered_map<Hash, std::vector<OpId>> ops_by_hash_;
  std::unordered_map<Hash, std::vector<TypeId>> types_by_hash_;
  std::unordered_map<Hash, std::vector<ValueId>> values_by_hash_;
  std::unordered_map<Key, std::optional<OpId>, KeyHash> made_;
  std::unordered_map<Key, std::optional<TypeId>, KeyHash> results_;
  Key key_;  // of the question at hand, kept so that asking allocates nothing
};

}  // namespace tandem::rewrite

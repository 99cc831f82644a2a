// Numbers for the operators, attribute values and tensor types of the graphs that are rewritten, so
// that numbers are compared instead of text. Also caches the result type of each operator for its
// operand types. One dictionary serves all drafts of a search; it is not shared between threads.
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
using SpecId = Id<struct SpecTag>;  // an operator without its attributes: its index in all_ops()

// Returns all attributes of `op`, in the order of OpSpec::attributes.
std::vector<Value> parse_attribute_values(const ops::Op& op);

class Dictionary {
 public:
  Dictionary();

  OpId intern(const ops::Op& op);
  TypeId intern(const TensorType& type);
  ValueId intern(const Value& value);
  [[nodiscard]] SpecId get_spec_id(const ops::OpSpec& spec) const { return specs_.at(&spec); }

  [[nodiscard]] const ops::Op& op(OpId id) const { return ops_[id.index()].op; }
  [[nodiscard]] SpecId spec(OpId id) const { return ops_[id.index()].spec; }
  // Returns the operator's attributes in the order of OpSpec::attributes.
  [[nodiscard]] std::span<const ValueId> attributes(OpId id) const {
    return ops_[id.index()].attributes;
  }
  [[nodiscard]] const TensorType& type(TypeId id) const { return types_[id.index()]; }
  [[nodiscard]] const Value& value(ValueId id) const { return values_[id.index()]; }

  // Returns the operator with these attributes, or nullopt if it does not take such values.
  std::optional<OpId> make_op(const ops::OpSpec& spec, std::span<const ValueId> attributes);
  // Returns the type of the operator's result, or nullopt if the operands do not fit.
  std::optional<TypeId> infer_result_type(OpId op, std::span<const TypeId> inputs);

 private:
  struct OpEntry {
    ops::Op op;
    SpecId spec;
    std::vector<ValueId> attributes;
  };
  using Key = std::vector<std::uint32_t>;
  struct DictionaryKeyHash {
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
  std::unordered_map<Key, std::optional<OpId>, DictionaryKeyHash> ops_by_key_;
  std::unordered_map<Key, std::optional<TypeId>, DictionaryKeyHash> results_;
  Key key_;  // key of the current query, reused to avoid allocation
};

}  // namespace tandem::rewrite

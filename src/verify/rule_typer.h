// Types a rule's sides at thousands of instances, most of which do not fit. It reuses what one
// instance has in common with the next, and allocates nothing.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "verify/typed_side.h"

namespace tandem::verify {

// Whether both sides type-check, with outputs of the same types.
enum class Fit : std::uint8_t { kBoth, kSourceOnly, kNotEvenSource };

// The operator of one pattern node. It is rebuilt only if one of its symbols has changed.
class NodeOperator {
 public:
  explicit NodeOperator(const rewrite::PatternNode& node);

  // Returns the operator, or nullopt if an attribute has no value or a wrong one.
  const std::optional<ops::Op>& get_op(const rewrite::Bindings& bindings);

 private:
  [[nodiscard]] bool is_up_to_date(const rewrite::Bindings& bindings) const;

  const rewrite::PatternNode* node_;
  bool reads_sizes_ = false;  // whether it reads tensors' sizes, so that it is rebuilt each time
  std::vector<std::uint16_t> symbols_;
  std::vector<std::optional<Value>> values_;  // values of `symbols_` when it was built
  bool is_built_ = false;
  std::optional<ops::Op> op_;
};

// Types the sides of one rule, which must outlive it. Results are valid until the next call.
class RuleTyper {
 public:
  using TypeId = TypeTable::TypeId;

  explicit RuleTyper(const Rule& rule);

  // Returns the types of the source's nodes up to the first that does not fit.
  std::span<const TypeId> type_source(const Instance& instance);
  // Returns whether the source type-checks and the conditions hold.
  bool occurs(const Instance& instance);
  // Returns which sides type-check. Does not ask the conditions.
  Fit check_fit(const Instance& instance);
  bool conditions_hold(const Instance& instance);

 private:
  struct TypedNodes {
    explicit TypedNodes(const Side& side);
    const Side& side;
    std::vector<NodeOperator> operators;
    std::vector<TypeId> types;  // types of the nodes that fit
  };

  void bind(const Instance& instance);
  bool fits(TypedNodes& nodes, const Instance& instance);

  const Rule& rule_;
  TypedNodes source_;
  TypedNodes target_;
  std::vector<const TensorType*> tensors_;
  // The last types of the tensors, and their numbers in the type table.
  std::vector<TensorType> known_;
  std::vector<TypeId> ids_;
  std::vector<TypeId> inputs_;  // a member to reuse its storage
};

// Overloads for a single instance.
Fit check_fit(const Rule& rule, const Instance& instance);
bool occurs(const Rule& rule, const Instance& instance);

}  // namespace tandem::verify

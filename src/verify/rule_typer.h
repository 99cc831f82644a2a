// Types a rule's sides at thousands of instances, most of which do not fit: what the one before has
// in common with the next is kept, and nothing is allocated.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "verify/typed_side.h"

namespace tandem::verify {

// Do both sides type-check, with outputs of the same types?
enum class Fit : std::uint8_t { kBoth, kSourceOnly, kNotEvenSource };

// The operator of one pattern node. One without symbols is made once, one with symbols again where
// a symbol has changed.
class NodeOperator {
 public:
  explicit NodeOperator(const rewrite::PatternNode& node);

  // None where an attribute has no value or a wrong one.
  const std::optional<ops::Op>& at(const rewrite::Bindings& bindings);

 private:
  [[nodiscard]] bool is_as_before(const rewrite::Bindings& bindings) const;

  const rewrite::PatternNode* node_;
  bool reads_sizes_ = false;  // of tensors: asked anew each time
  std::vector<std::uint16_t> symbols_;
  std::vector<std::optional<Value>> values_;  // of these, when it was made
  bool is_made_ = false;
  std::optional<ops::Op> op_;
};

// What it is given must not outlive the rule, and what it gives is valid until it is asked again.
class RuleTyper {
 public:
  using TypeId = TypeTable::TypeId;

  explicit RuleTyper(const Rule& rule);

  // Of the source's nodes up to the first that does not fit.
  std::span<const TypeId> source_types(const Instance& instance);
  // Does the source type-check, and do the conditions hold?
  bool occurs(const Instance& instance);
  // The conditions are not asked.
  Fit fit_of(const Instance& instance);
  bool conditions_hold(const Instance& instance);

 private:
  struct TypedNodes {
    explicit TypedNodes(const Side& side);
    const Side& side;
    std::vector<NodeOperator> operators;
    std::vector<TypeId> types;  // of the nodes that fit
  };

  void bind(const Instance& instance);
  bool fits(TypedNodes& nodes, const Instance& instance);

  const Rule& rule_;
  TypedNodes source_;
  TypedNodes target_;
  std::vector<const TensorType*> tensors_;
  // The types of tensors as they were last, and their numbers.
  std::vector<TensorType> known_;
  std::vector<TypeId> ids_;
  std::vector<TypeId> inputs_;  // kept for its storage
};

// Of one instance.
Fit fit_of(const Rule& rule, const Instance& instance);
bool occurs(const Rule& rule, const Instance& instance);

}  // namespace tandem::verify

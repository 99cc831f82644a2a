// A rule's side made concrete: with a type for every tensor variable and a value for every symbol,
// each pattern node is an operator with its attributes and the type of its result, or the side does
// not type-check. Nothing here knows an operator: graph::result_type says what fits.
//
// Rules are tried at thousands of sizes, most of them again for other rules. TypeTable remembers
// what it was asked, also what did not fit, so that the second time is a look-up.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/op.h"
#include "rewrite/rule.h"
#include "tensor/tensor_type.h"

namespace tandem::verify {

using rewrite::PatternId;
using rewrite::Rule;
using rewrite::Side;
using rewrite::Value;

// What the variables of a rule stand for.
struct Instance {
  std::vector<TensorType> tensors;            // by tensor variable
  std::vector<std::optional<Value>> symbols;  // by symbol; all are there once an instance is whole
  bool operator==(const Instance&) const = default;
};

// "?x [2, 3], ?w [4, 3], ?a = 1"
std::string to_text(const Rule& rule, const Instance& instance);

struct TypedNode {
  std::optional<ops::Op> op;  // none: a variable
  std::uint16_t variable = 0;
  std::vector<PatternId> inputs;
  TensorType type;
};

struct TypedSide {
  std::vector<TypedNode> nodes;  // as in the side
  std::vector<PatternId> outputs;
};

// None where an attribute has no value or the operands of some node do not fit.
std::optional<TypedSide> type_side(const Side& side, const Instance& instance);

// Do both sides type-check, with outputs of the same types? The conditions are not asked.
enum class Fit : std::uint8_t { kBoth, kSourceOnly, kNotEvenSource };
Fit fit_of(const Rule& rule, const Instance& instance);

// The source alone.
bool fit_of_source(const Rule& rule, const Instance& instance);

bool conditions_hold(const Rule& rule, const Instance& instance);

// Types as numbers, and what operators make of them. One per thread.
class TypeTable {
 public:
  using TypeId = std::uint32_t;
  static constexpr TypeId kNone = ~TypeId{0};

  static TypeTable& of_thread();

  TypeId intern(const TensorType& type);
  [[nodiscard]] const TensorType& type(TypeId id) const { return types_[id]; }
  // kNone where the operands do not fit.
  TypeId result(const ops::Op& op, std::span<const TypeId> inputs);
  // The operator of a pattern node; none where an attribute has no value or a wrong one.
  std::optional<ops::Op> op(const rewrite::PatternNode& node, const rewrite::Bindings& bindings);

 private:
  struct KeyHash {
    std::size_t operator()(const std::vector<std::uint64_t>& key) const;
  };
  using Key = std::vector<std::uint64_t>;

  // What an operator of up to four operands makes of these; free where there is no operator.
  struct Result {
    static constexpr std::size_t kMostInputs = 4;
    const void* op = nullptr;
    std::array<TypeId, kMostInputs> inputs{kNone, kNone, kNone, kNone};
    TypeId result = kNone;
  };

  TypeId made(const ops::Op& op, std::span<const TypeId> inputs);
  // The place of this one, or a free one.
  Result& place(const Result& of);
  void grow();

  std::deque<TensorType> types_;
  std::vector<TypeId> whole_;  // by type, the same undivided
  std::unordered_map<Key, TypeId, KeyHash> ids_;
  // Asked millions of times: open addressing in one piece of memory.
  std::vector<Result> results_ = std::vector<Result>(1024);
  std::size_t results_used_ = 0;
  std::unordered_map<Key, TypeId, KeyHash> long_results_;  // of more operands
  std::unordered_map<Key, std::optional<ops::Op>, KeyHash> ops_;
  Key key_;  // kept for their storage
  std::vector<Value> values_;
};

}  // namespace tandem::verify

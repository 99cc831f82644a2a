// Types as numbers, and what operators make of them. Rules are tried at thousands of sizes, most of
// them again for other rules, and most in vain: the table remembers what it was asked, also what
// did not fit, so that the second time is a look-up.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/hash_set.h"
#include "base/numbers_by_hash.h"
#include "ops/op.h"
#include "rewrite/rule.h"
#include "tensor/tensor_type.h"

namespace tandem::rewrite {

// One per thread.
class TypeTable {
 public:
  using TypeId = std::uint32_t;
  static constexpr TypeId kNone = ~TypeId{0};

  // Of `most_results`, a power of two from 1024 on, it forgets all when half are there.
  explicit TypeTable(std::size_t most_results = std::size_t{1} << 21U)
      : most_results_(most_results) {}

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

  // What an operator of up to four operands makes of these; free where there is no operator. No one
  // lies in two cache lines.
  struct alignas(32) Result {
    static constexpr std::size_t kMostInputs = 4;
    const void* op = nullptr;
    std::array<TypeId, kMostInputs> inputs{kNone, kNone, kNone, kNone};
    TypeId result = kNone;

    [[nodiscard]] bool is_of(const Result& other) const {
      return op == other.op && inputs == other.inputs;
    }
    [[nodiscard]] Hash hash() const;
  };

  // Of an operator and the ranks of its operands.
  [[nodiscard]] Hash ranks_hash(const ops::Op& op, std::span<const TypeId> inputs) const;
  TypeId interned(const TensorType& type, Hash hash);
  TypeId made(const ops::Op& op, std::span<const TypeId> inputs);
  TypeId sought(const ops::Op& op, std::span<const TypeId> inputs, const Result& asked, Hash hash);
  // The place of this one, or a free one.
  Result& place(const Result& of, Hash hash);
  void grow();

  std::size_t most_results_;
  std::deque<TensorType> types_;
  struct Recent {
    TensorType type;
    TypeId id = kNone;
  };
  static constexpr unsigned kRecentTypesShift = 64 - 9;
  std::vector<Recent> recent_types_ = std::vector<Recent>(std::size_t{1} << 9U);
  std::vector<TypeId> whole_;  // by type, the same undivided
  NumbersByHash ids_;
  std::vector<std::uint8_t> ranks_;  // by type
  HashSet misfits_;                  // operators and ranks that fit at no sizes
  // What was asked last stays near the processor: a rule asks the same again and again.
  static constexpr unsigned kRecentShift = 64 - 13;
  std::vector<Result> recent_ = std::vector<Result>(std::size_t{1} << 13U);
  // Asked millions of times: open addressing in one piece of memory.
  std::vector<Result> results_ = std::vector<Result>(1024);
  std::size_t results_used_ = 0;
  std::unordered_map<Key, TypeId, KeyHash> long_results_;  // of more operands
  std::unordered_map<Key, std::optional<ops::Op>, KeyHash> ops_;
  Key key_;  // kept for their storage
  std::vector<Value> values_;
};

}  // namespace tandem::rewrite

// Types as numbers, and a cache of the types that operators return for them. Rules are tried at
// thousands of sizes. Most of these recur for other rules, and most do not fit. The table also
// caches misfits, so that a repeated query is a look-up.
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

// A table of types. Each thread has its own.
class TypeTable {
 public:
  using TypeId = std::uint32_t;
  static constexpr TypeId kNone = ~TypeId{0};

  // `most_results` bounds the cache. It is a power of two, at least 1024. The cache is cleared once
  // half of its entries are in use.
  explicit TypeTable(std::size_t most_results = std::size_t{1} << 21U)
      : most_results_(most_results) {}

  static TypeTable& get_thread_local();

  TypeId intern(const TensorType& type);
  [[nodiscard]] const TensorType& type(TypeId id) const { return types_[id]; }
  // Returns the type of the operator's result, or kNone if the operands do not fit.
  TypeId infer_result_type(const ops::Op& op, std::span<const TypeId> inputs);
  // Returns the operator of a pattern node, or nullopt if an attribute has no value or an invalid
  // one.
  std::optional<ops::Op> make_op(const rewrite::PatternNode& node,
                                 const rewrite::Bindings& bindings);

 private:
  struct KeyHash {
    std::size_t operator()(const std::vector<std::uint64_t>& key) const;
  };
  using Key = std::vector<std::uint64_t>;

  // The result of an operator with up to four operands. `op` is null in a free entry. The
  // alignment keeps an entry within one cache line.
  struct alignas(32) CachedResultType {
    static constexpr std::size_t kMostInputs = 4;
    const void* op = nullptr;
    std::array<TypeId, kMostInputs> inputs{kNone, kNone, kNone, kNone};
    TypeId result = kNone;

    [[nodiscard]] bool is_same_query(const CachedResultType& other) const {
      return op == other.op && inputs == other.inputs;
    }
    [[nodiscard]] Hash hash() const;
  };

  // Returns a hash of an operator and the ranks of its operands.
  [[nodiscard]] Hash compute_ranks_hash(const ops::Op& op, std::span<const TypeId> inputs) const;
  TypeId find_or_add_type(const TensorType& type, Hash hash);
  TypeId compute_result_type(const ops::Op& op, std::span<const TypeId> inputs);
  TypeId find_result_type(const ops::Op& op, std::span<const TypeId> inputs,
                          const CachedResultType& asked, Hash hash);
  // Returns the entry that equals `of`, or the free entry for it.
  CachedResultType& find_entry(const CachedResultType& of, Hash hash);
  void grow();

  std::size_t most_results_;
  std::deque<TensorType> types_;
  struct Recent {
    TensorType type;
    TypeId id = kNone;
  };
  static constexpr unsigned kRecentTypesShift = 64 - 9;
  std::vector<Recent> recent_types_ = std::vector<Recent>(std::size_t{1} << 9U);
  std::vector<TypeId> whole_;  // by type, the same type unsharded
  NumbersByHash ids_;
  std::vector<std::uint8_t> ranks_;  // by type
  HashSet misfits_;                  // operators and ranks that fit at no sizes
  // The latest queries, few enough for the processor's cache. A rule repeats the same queries.
  static constexpr unsigned kRecentShift = 64 - 13;
  std::vector<CachedResultType> recent_ = std::vector<CachedResultType>(std::size_t{1} << 13U);
  // An open-addressing table in one block of memory, because it is queried millions of times.
  std::vector<CachedResultType> results_ = std::vector<CachedResultType>(1024);
  std::size_t results_used_ = 0;
  std::unordered_map<Key, TypeId, KeyHash> long_results_;  // for more than kMostInputs operands
  std::unordered_map<Key, std::optional<ops::Op>, KeyHash> ops_;
  Key key_;  // reused storage
  std::vector<Value> values_;
};

}  // namespace tandem::rewrite

// A random order of numbers in which any position can be looked up. Nothing is stored, so a resumed
// run and all its processes have the same order.
#pragma once

#include <cstdint>

#include "base/hash.h"

namespace tandem::data {

// A permutation of 0 ... count - 1.
//   count 5: 0 ... 15 are permuted; if 3 becomes 12, that is permuted again and becomes 4, say
class Shuffle {
 public:
  Shuffle(std::int64_t count, Hash key) : count_(static_cast<Hash>(count)), key_(key) {
    while ((Hash{1} << (2 * half_bits_)) < count_) ++half_bits_;
  }

  [[nodiscard]] std::int64_t operator()(std::int64_t place) const {
    // A Feistel network permutes a power of four. A value outside the range is permuted again.
    auto x = static_cast<Hash>(place);
    do x = permute(x);
    while (x >= count_);
    return static_cast<std::int64_t>(x);
  }

 private:
  [[nodiscard]] Hash permute(Hash x) const {
    const Hash mask = (Hash{1} << half_bits_) - 1;
    Hash left = x >> half_bits_;
    Hash right = x & mask;
    for (Hash round = 0; round < kRounds; ++round) {
      const Hash next = left ^ (hash_combine(hash_combine(key_, round), right) & mask);
      left = right;
      right = next;
    }
    return left << half_bits_ | right;
  }

  static constexpr Hash kRounds = 6;

  Hash count_;
  Hash key_;
  unsigned half_bits_ = 1;
};

}  // namespace tandem::data

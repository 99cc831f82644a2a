// A set of hashes in one piece of memory. Most of the millions of look-ups find nothing; each reads
// about one place. Hashes are evenly distributed, so their low bits are the place.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/hash.h"

namespace tandem {

class HashSet {
 public:
  // Inserts the hash and returns whether it was new.
  bool insert(Hash hash) {
    if (hash == kFree) return !std::exchange(has_free_, true);
    auto& place = places_[find_place(hash)];
    if (place == hash) return false;
    place = hash;
    if (++used_ * 2 > places_.size()) grow();
    return true;
  }

  [[nodiscard]] bool contains(Hash hash) const {
    return hash == kFree ? has_free_ : places_[find_place(hash)] == hash;
  }

 private:
  static constexpr Hash kFree = 0;

  // Returns the place of the hash, or a free place.
  [[nodiscard]] std::size_t find_place(Hash hash) const {
    const auto mask = places_.size() - 1;
    auto at = hash & mask;
    while (places_[at] != hash && places_[at] != kFree) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Hash> old(places_.size() * 2, kFree);
    std::swap(old, places_);
    for (auto hash : old) {
      if (hash != kFree) places_[find_place(hash)] = hash;
    }
  }

  std::vector<Hash> places_ = std::vector<Hash>(64, kFree);
  std::size_t used_ = 0;
  bool has_free_ = false;
};

}  // namespace tandem

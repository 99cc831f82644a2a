// A hash table from hashes to the indices of objects that are stored elsewhere, with open
// addressing in one piece of memory. Hashes are stored next to the indices, so that few objects are
// compared.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/hash.h"

namespace tandem {

class NumbersByHash {
 public:
  // Returns the index of the object with this hash for which is_it(index), or nullopt.
  template <class IsIt>
  [[nodiscard]] std::optional<std::uint32_t> find(Hash whole_hash, IsIt&& is_it) const {
    const auto hash = static_cast<std::uint32_t>(whole_hash);
    for (auto at = first(hash); places_[at].number != kFree; at = after(at)) {
      if (places_[at].hash == hash && is_it(places_[at].number)) return places_[at].number;
    }
    return std::nullopt;
  }

  // Returns the index of the object with this hash for which is_it(index). If there is none, stores
  // and returns `next`.
  template <class IsIt>
  std::uint32_t find_or_add(Hash whole_hash, std::uint32_t next, IsIt&& is_it) {
    const auto hash = static_cast<std::uint32_t>(whole_hash);
    auto at = first(hash);
    for (; places_[at].number != kFree; at = after(at)) {
      if (places_[at].hash == hash && is_it(places_[at].number)) return places_[at].number;
    }
    places_[at] = {hash, next};
    if (++used_ * 2 > places_.size()) grow();
    return next;
  }

 private:
  static constexpr std::uint32_t kFree = ~std::uint32_t{0};
  struct HashSlot {
    std::uint32_t hash = 0;
    std::uint32_t number = kFree;
  };

  [[nodiscard]] std::size_t first(std::uint32_t hash) const { return hash & (places_.size() - 1); }
  [[nodiscard]] std::size_t after(std::size_t at) const { return (at + 1) & (places_.size() - 1); }

  void grow() {
    std::vector<HashSlot> old(places_.size() * 2);
    std::swap(old, places_);
    for (const auto& place : old) {
      if (place.number == kFree) continue;
      auto at = first(place.hash);
      while (places_[at].number != kFree) at = after(at);
      places_[at] = place;
    }
  }

  std::vector<HashSlot> places_ = std::vector<HashSlot>(1024);
  std::size_t used_ = 0;
};

}  // namespace tandem

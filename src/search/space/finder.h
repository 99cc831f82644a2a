// How layouts are chosen, given what they cost.
#pragma once

#include <cstdint>

namespace tandem::search {

struct Finder {
  enum class By : std::uint8_t {
    kElimination,  // the cheapest: elimination.h
    kDescent,      // one at a time: local_search.h
    kWalk,         // at random, as FlexFlow does: local_search.h
  };
  By by = By::kElimination;
  std::uint64_t seed = 0;  // of a walk

  [[nodiscard]] bool is_exact() const { return by == By::kElimination; }
};

}  // namespace tandem::search

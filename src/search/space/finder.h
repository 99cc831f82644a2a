// The solver that chooses layouts, given their costs.
#pragma once

#include <cstdint>

namespace tandem::search {

struct Finder {
  enum class By : std::uint8_t {
    kElimination,  // exact minimum: elimination.h
    kDescent,      // one variable at a time: local_search.h
    kWalk,         // random, as in FlexFlow: local_search.h
  };
  By by = By::kElimination;
  std::uint64_t seed = 0;  // RNG seed of a walk

  [[nodiscard]] bool is_exact() const { return by == By::kElimination; }
};

}  // namespace tandem::search

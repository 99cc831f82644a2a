// Extrapolates steps of many micro-batches from steps of few. Once a pipeline is filled, each
// further micro-batch takes as long as the one before and needs as much memory. Example: with fewer
// = 36 and more = 48, time(512) = time(48) + (512 - 48) / 12 * (time(48) - time(36)).
#pragma once

#include <cstdint>
#include <optional>

#include "lower/program.h"

namespace tandem::predict {

// Two numbers of micro-batches at which a step has reached its steady state.
struct FewMicroBatches {
  std::int64_t fewer = 0;
  std::int64_t more = 0;

  // Returns how often the difference between `more` and `fewer` fits between `more` and `all`.
  [[nodiscard]] double extrapolation_factor(std::int64_t all) const {
    return static_cast<double>(all - more) / static_cast<double>(more - fewer);
  }
};

// Returns nullopt if the program has too few micro-batches, or if a device's memory grows with
// their number.
std::optional<FewMicroBatches> find_few_micro_batches(const lower::Program& program);

}  // namespace tandem::predict

// Steps of many micro-batches told by steps of few. Once a pipeline is filled, each further
// micro-batch takes as long as the one before and keeps as much memory: the times of 512 are those
// of 48, and 464 times what they differ by from those of 36, over 12.
#pragma once

#include <cstdint>
#include <optional>

#include "lower/program.h"

namespace tandem::predict {

// Two numbers of micro-batches after which a step has settled.
struct FewMicroBatches {
  std::int64_t fewer = 0;
  std::int64_t more = 0;

  // How many times they differ by what is missing to `all`.
  [[nodiscard]] double times(std::int64_t all) const {
    return static_cast<double>(all - more) / static_cast<double>(more - fewer);
  }
};

// Nothing where micro-batches are not many, or a device keeps more of them the more there are.
std::optional<FewMicroBatches> few_micro_batches(const lower::Program& program);

}  // namespace tandem::predict

// The ways to divide the devices among the kinds of parallelism.
#pragma once

#include <cstdint>
#include <vector>

#include "strategies/problem.h"

namespace tandem::search {

// A way in which tensor, context, data and pipeline parallelism share the devices.
struct Split {
  std::int64_t tp = 1, cp = 1, pp = 1, dp = 1, ep = 1;
  machine::DigitMask tensor = 0, context = 0, ranks = 0;
  machine::DigitMask data = 0;  // all other digits
};

struct SplitOptions {
  std::int64_t stages = 1;  // most stages
  bool sequence = true;     // whether sequences may be divided
};
std::vector<Split> list_splits(const strategies::Problem& problem, std::int64_t batch,
                               const SplitOptions& options);

}  // namespace tandem::search

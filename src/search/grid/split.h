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
// Returns the ways that the digits and `batch` allow. Example: 2 nodes of 2 GPUs, batch 4, at most
// 2 stages, no sequence and no experts:
//   pp=1: tp=1,dp=4  tp=2,dp=2  tp=4,dp=1    pp=2: tp=1,dp=2  tp=2,dp=1
std::vector<Split> list_splits(const strategies::Problem& problem, std::int64_t batch,
                               const SplitOptions& options);

}  // namespace tandem::search

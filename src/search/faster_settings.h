// What single change of a strategy's settings makes its step fastest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/estimates.h"

namespace tandem::search {

struct FasterSetting {
  std::string change;  // search/neighbours: "micro=16 instead of micro=8"
  Evaluated point;
};

// Returns the single_changes of `setting`, which is complete, that fit and save more than 1 % of
// its step: the fastest `most` of them, the fastest first. Of changes that come to the same the
// first stands for all. Nothing where `setting` has no estimate.
std::vector<FasterSetting> faster_settings(Estimates& estimates, const strategies::Setting& setting,
                                           const strategies::Problem& problem, std::int64_t batch,
                                           std::size_t most);

}  // namespace tandem::search

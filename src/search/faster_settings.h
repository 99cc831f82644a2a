// Finds the single changes of a strategy's settings that shorten its step most.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/estimates.h"

namespace tandem::search {

struct FasterSetting {
  std::string change;  // text of search/neighbours: "micro=16 instead of micro=8"
  Evaluated point;
};

// Returns the changes from list_single_changes that fit and save more than 1 % of the step time.
// `setting` is complete. Returns at most `most` of them, fastest first. Changes with equal time and
// memory are represented by the first. Returns an empty vector if `setting` has no estimate.
//   setting 100 ms, changes 98.5, 99.2 and 95 ms -> those of 95 and 98.5 ms
std::vector<FasterSetting> find_faster_settings(Estimates& estimates,
                                                const strategies::Setting& setting,
                                                const strategies::Problem& problem,
                                                std::int64_t batch, std::size_t most);

}  // namespace tandem::search

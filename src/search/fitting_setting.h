// Finds a setting that fits for a strategy that does not, by options that save memory.
#pragma once

#include <cstdint>
#include <optional>

#include "search/estimates.h"

namespace tandem::search {

// Returns a changed setting that fits: with more micro-batches, more recomputation, sequence
// parallelism or more sharded states. `setting` is complete. All combinations are estimated. Among
// those that fit and are nearly as fast as the fastest, the one with the fewest changes is
// returned. Returns nullopt if none fits or none has an estimate.
//   zero=1,recompute=full takes 100 ms, and micro=16 alone takes 101 ms -> micro=16
std::optional<Evaluated> find_fitting_setting(Estimates& estimates,
                                              const strategies::Setting& setting,
                                              std::int64_t batch);

}  // namespace tandem::search

// What a strategy that does not fit becomes with its own settings that save memory.
#pragma once

#include <cstdint>
#include <optional>

#include "search/estimates.h"

namespace tandem::search {

// The setting, which is complete, changed: with more micro-batches, more made again in the backward
// pass, the sequence and the states divided: all of them estimated, the least changed of those that
// fit and are nearly as fast as the fastest. Nothing where none fits or none has an estimate.
std::optional<Evaluated> fitting_setting(Estimates& estimates, const strategies::Setting& setting,
                                         std::int64_t batch);

}  // namespace tandem::search

// Rounds quantities to the integers that JSON documents hold.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/units.h"

namespace tandem::report {

inline std::int64_t to_integer(Bytes bytes) { return static_cast<std::int64_t>(bytes.value); }

inline std::int64_t to_nanoseconds(Seconds time) { return std::llround(time.value * 1e9); }

}  // namespace tandem::report

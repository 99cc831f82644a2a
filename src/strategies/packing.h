// Bin packing: places loads that cannot be split, the largest first, each at the place with the
// least load so far. The fullest place holds at most 4/3 of the optimum (Graham's bound for this
// order).
#pragma once

#include <vector>

#include "base/units.h"
#include "machine/digits.h"

namespace tandem::strategies {

struct Load {
  Bytes bytes;                   // on each device that holds it
  machine::DigitMask whole = 0;  // digits over which it is not split
};

// Returns, by load, its rank among the digits in `whole`. Digits with more places than letters
// (machine::DigitRole::kPlaces) only use the places that have one.
//   loads of 4, 3 and 2 bytes over 2 places -> 0, 1, 1
std::vector<std::int64_t> pack(const std::vector<Load>& loads, const machine::Digits& digits);

}  // namespace tandem::strategies

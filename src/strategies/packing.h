// Bin packing: what cannot be cut lies whole at one place, the largest first, each where there is
// least so far. Never more than 4/3 of the best (Graham's bound for this order).
#pragma once

#include <vector>

#include "base/units.h"
#include "machine/digits.h"

namespace tandem::strategies {

struct Load {
  Bytes bytes;                   // on each device that holds it
  machine::DigitMask whole = 0;  // the digits over which it is not cut
};

// By load, its rank among the digits it is whole over. Digits without a letter for every place
// (machine::DigitRole::kPlaces) only take part with the places that have one.
std::vector<std::int64_t> pack(const std::vector<Load>& loads, const machine::Digits& digits);

}  // namespace tandem::strategies

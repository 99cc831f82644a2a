// Parts of a machine: the devices that agree in some digits, as a machine of their own. The search
// uses a part to evaluate one stage of a pipeline alone.
#pragma once

#include <optional>

#include "machine/digits.h"

namespace tandem::machine {

// Returns the part of `machine` without the digits in `mask`. Each level has as many units as its
// other digits give. A `shared` link keeps only the part's share of its bandwidth. Returns nullopt
// if the devices differ in kind, or if several units are left of a level that no single switch
// joins.
std::optional<Machine> make_part_without(const Machine& machine, const Digits& digits,
                                         DigitMask mask);

}  // namespace tandem::machine

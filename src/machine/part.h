// A part of a machine: the devices that agree in some digits, as a machine of its own. So one stage
// of a pipeline can be looked at by itself.
#pragma once

#include <optional>

#include "machine/digits.h"

namespace tandem::machine {

// Each level has as many units as differ in its other digits. Links are what they were: of one that
// the devices of a unit share, the other parts' devices have their share. Nothing
// where devices differ in kind, or where several units of a level are left that no switch joins.
std::optional<Machine> part_without(const Machine& machine, const Digits& digits, DigitMask mask);

}  // namespace tandem::machine

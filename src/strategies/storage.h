// Where weights are kept between their uses.
#pragma once

#include "machine/layout.h"

namespace tandem::strategies {

// Where a weight of these sizes that is used in `layout` is stored in parts over the digits of
// `over`, as far as it would be replicated there: along the first dimension that all the digits
// divide, else along the one that takes most.
machine::Layout stored_in_parts(machine::Layout layout, const Shape& sizes, machine::DigitMask over,
                                const machine::Digits& digits);

}  // namespace tandem::strategies

// Which sizes of an instance may change together: found by trying. See instances.h.
#pragma once

#include "verify/instances.h"

namespace tandem::verify {

// Fills in pattern.moves for its base.
void find_moves(const Rule& rule, Pattern& pattern);

}  // namespace tandem::verify

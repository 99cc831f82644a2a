// Which sizes of an instance may change together: found by trying. See instances.h.
#pragma once

#include "verify/instances.h"

namespace tandem::verify {

// Fills in pattern.moves for its base.
void find_moves(const Rule& rule, Pattern& pattern);

// Adds those of several symbols that no operator's operands tell of: all sizes and whole numbers
// that are equal to one that does not move grow together. Of these there are few, which would be
// the only ones that large instances are made by.
void add_moves_of_equal(const Rule& rule, Pattern& pattern);

}  // namespace tandem::verify

// Finds by trying which sizes of an instance may change together. See instances.h.
#pragma once

#include "verify/instances.h"

namespace tandem::verify {

// Fills in pattern.moves for the pattern's base.
void find_moves(const Rule& rule, InstancePattern& pattern);

// Adds moves of several symbols that no operator's operands determine: all sizes and integers equal
// to a symbol that does not move grow with it. Separate from find_moves: such moves are few, and
// large instances would be built from them alone.
void add_moves_of_equal_sizes(const Rule& rule, InstancePattern& pattern);

}  // namespace tandem::verify

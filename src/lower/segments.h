// The last step of lowering: splits the tasks into the forward, backward and update segments of
// each stage, which the schedule runs one by one. Segments keep the program's order, except that
// weights shared between stages come first and their gradients last.
//
// Example: the last stage receives the embedding table of the first one for its head.
//   linear, receive table, head    becomes    receive table, linear, head
#pragma once

#include "lower/program.h"

namespace tandem::lower {

// Fills `program.segments`.
void split_into_segments(Program& program);

}  // namespace tandem::lower

// The last step of lowering: splits the tasks into the forward, backward and update segments of
// each stage, which the schedule runs one by one. Segments keep the program's order, except that
// weights shared between stages come first and their gradients last.
#pragma once

#include "lower/program.h"

namespace tandem::lower {

// Fills `program.segments`.
void split_into_segments(Program& program);

}  // namespace tandem::lower

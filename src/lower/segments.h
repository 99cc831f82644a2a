// Last step of lowering: the tasks of each stage's forward pass, backward pass and update, which
// the schedule takes up one by one. In the order of the program, but for weights that stages
// share: they come first, and their gradients last.
#pragma once

#include "lower/program.h"

namespace tandem::lower {

void cut_into_segments(Program& program);

}  // namespace tandem::lower

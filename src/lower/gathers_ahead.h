// Asks for the backward pass's weights before the gradients of earlier ones are summed up.
#pragma once

#include "lower/program.h"

namespace tandem::lower {

// Collectives over the same devices run in the order of the program, and the sum of a gradient
// waits for the operator that makes it. What comes behind it in the list, the gather of the weight
// that the next operator wants again, would wait as well, and compute with it. So it goes in front,
// as FSDP's backward prefetch does:
//
//   gather w2, backward 2, scatter g2, gather w1, backward 1, scatter g1
//   gather w2, backward 2, gather w1, scatter g2, backward 1, scatter g1
//
// At most what is gathered between one operator's gradients and the next one's goes ahead. Of
// programs not yet cut into segments.
void gather_weights_ahead(Program& program);

}  // namespace tandem::lower

// A pass that gathers weights for the backward pass before earlier gradients are reduced.
#pragma once

#include "lower/program.h"

namespace tandem::lower {

// Moves each gather of a weight for the backward pass in front of the preceding gradient
// collectives. Collectives over the same devices run in program order, and the reduction of a
// gradient waits for the operator that computes it. The gather of the next operator's weight would
// wait behind it, and so would the next operator's compute. FSDP's backward prefetch uses the same
// order:
//
//   gather w2, backward 2, scatter g2, gather w1, backward 1, scatter g1
//   gather w2, backward 2, gather w1, scatter g2, backward 1, scatter g1
//
// At most the gathers between two operators' gradients are moved ahead. `program` must not be split
// into segments yet.
void prefetch_weight_gathers(Program& program);

}  // namespace tandem::lower

// A pass that replaces the gather of an operand before a contraction by a ring of devices. Each
// device works on the block it has while the next one is in transit.
//
//   all_gather k -> K; scores = contract(q, K)
//   for every block of k, the own one first: shift the block on; scores[.., block] = contract(q,
//   block)
//
// A block is a part of one factor of the contraction. If the result has the factor, blocks fill it
// part by part. If the factor is contracted, their results are summed. This is the same as
// partitioning the factor over devices, one device after another. In the backward pass the blocks
// go round again. The gradients, which a reduce-scatter would sum, travel with them and collect one
// device's contribution at every ring step.
//
// The devices send as much as with the collectives, and hold two blocks of an operand at a time.
// For attention written with contractions, with keys and values gathered for sequence-sharded
// queries, this is ring attention.
//
// Example on 3 devices: device 1 works on the blocks 1, 2, 0 in the forward pass and on 2, 0, 1 in
// the backward pass. So the gradient of its own block is complete in the last step.
#pragma once

#include "lower/program.h"

namespace tandem::lower {

// Replaces the all-gathers of `program` whose readers can all work block by block.
void replace_gathers_by_rings(Program& program);

}  // namespace tandem::lower

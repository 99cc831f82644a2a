// A pass: instead of gathering an operand before a contraction, the devices pass their shards round
// a ring, and each works on the block it has while the next is on its way.
//
//   all_gather k -> K; scores = contract(q, K)
//   for every block of k, the own one first: shift the block on; scores[.., block] = contract(q,
//   block)
//
// A block is a part of one factor of the contraction. Where the result has the factor, blocks fill
// it part by part; where it is summed over, they add up: what cutting the factor over devices would
// give, one device after the other. Backward the blocks go round again, beside them the sums that a
// reduce-scatter would make of their gradients, each picking up a device's share at every turn.
//
// As much is sent as by the collectives, and two blocks of an operand are there at a time. For
// attention written with contractions, whose keys and values are gathered along the sequence for
// queries that are split, this is ring attention.
#pragma once

#include "lower/program.h"

namespace tandem::lower {

void pass_blocks_round_rings(Program& program);

}  // namespace tandem::lower

// Resharding: moving a tensor from one layout to another by a short list of collectives and local
// steps.
//
// A digit's role before and after determines the step:
//   partial   -> replica     all-reduce
//   partial   -> dimension   reduce-scatter
//   dimension -> replica     all-gather
//   dimension -> dimension   all-to-all
//   replica   -> dimension   slice (free)
// Reduce + Replicate, Reduce + Partition, Combine + Replicate and Combine + Partition therefore
// fuse by construction. A digit can leave or join a dimension only as its minor digit. If another
// digit is in the way, that one is gathered first and partitioned again afterwards.
#pragma once

#include <vector>

#include "machine/layout.h"
#include "machine/step.h"

namespace tandem::machine {

// One step of a resharding. In a collective with a root (reduce, gather, broadcast, scatter; send:
// its source) the root is the device at the idle digits' place.
struct ReshardStep {
  Step kind = Step::kSlice;
  DigitMask digits = 0;      // digits over which devices communicate
  std::size_t from_dim = 0;  // dimension that the digits leave, if any
  std::size_t to_dim = 0;    // dimension that the digits join, if any
  Layout before, after;
};

// Return the rank in its group of the root, and of a send's target; 0 for a collective without one.
std::int64_t find_root_rank(const ReshardStep& step, const Digits& digits);
std::int64_t find_target_rank(const ReshardStep& step, const Digits& digits);

// Returns the steps that move a tensor from layout `from` to layout `to`.
std::vector<ReshardStep> reshard(const Layout& from, const Layout& to);

// Returns the average bytes that a device of the group sends, by the ring algorithms. An all-reduce
// sends 2 (n-1)/n of `bytes`. A broadcast or reduce is a chain whose end sends nothing: (n-1)/n. In
// a scatter or gather only the root sends or receives: (n-1)/n^2.
Bytes compute_bytes_sent(const Digits& digits, Step kind, DigitMask group, Bytes bytes);

}  // namespace tandem::machine

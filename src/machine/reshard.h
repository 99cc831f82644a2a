// How a tensor gets from one layout to another: a short list of collectives and local steps.
//
// A digit's role before and after names the step: partial to replica is an all-reduce, partial to a
// dimension a reduce-scatter, a dimension to replica an all-gather, one dimension to another an
// all-to-all, replica to a dimension a free slice. So Reduce + Replicate, Reduce + Partition,
// Combine + Replicate, Combine + Partition fuse by construction.
// A digit can only leave or join a dimension as its minor one; where another digit is in the way,
// that one is gathered first and cut again after.
#pragma once

#include <vector>

#include "machine/layout.h"
#include "machine/step.h"

namespace tandem::machine {

// In a collective with a root (reduce, gather, broadcast, scatter, send: its source) the root is
// the device at the idle digits' place.
struct ReshardStep {
  Step kind = Step::kSlice;
  DigitMask digits = 0;      // over which devices
  std::size_t from_dim = 0;  // where digits leave a dimension
  std::size_t to_dim = 0;    // where they join one
  Layout before, after;
};

// The root's rank in its group; 0 for a collective without one. And that of a send's target.
std::int64_t root_of(const ReshardStep& step, const Digits& digits);
std::int64_t target_of(const ReshardStep& step, const Digits& digits);

std::vector<ReshardStep> reshard(const Layout& from, const Layout& to);

// What a device of the group sends on average, by the ring algorithms: all-reduce 2 (n-1)/n of its
// bytes, a broadcast or reduce (a chain, whose end sends nothing) (n-1)/n, a scatter or gather
// (only the root sends or receives) (n-1)/n^2.
Bytes bytes_sent(const Digits& digits, Step kind, DigitMask group, Bytes bytes);

}  // namespace tandem::machine

// The layouts that a node or a tensor may take in the search, as uses of machine digits.
//
// On a small machine these are all layouts. On a larger one there are too many. Within a level, the
// first digits may run along the batch, and all others share one more use: a factor, replication or
// idleness. No partial sums pass through. Layouts that differ only by symmetry are listed once, and
// some others are left out. Idle digits are at place 0, which is as good as any other if all
// devices are equal.
//
// Example: three digits of size 2 on one level, and an operator with the factors b (batch) and n,
// both of size 64. With R for replication and - for idleness, the layouts are
//   RRR --- nnn   bRR b-- bnn   bbR bb- bbn   bbb
#pragma once

#include <vector>

#include "machine/node_layout.h"
#include "strategies/factor_kinds.h"

namespace tandem::search {

// The dimensions of parallelism that may be used.
struct Dims {
  bool data = true;
  bool model = true;
  bool spatial = true;
  bool reduction = true;
  bool head = true;
  bool expert = true;
  bool sequence = true;
  bool pipeline = true;
  bool operator==(const Dims&) const = default;
};

// Returns `dims`, preceded by `dims` without the sequence if nodes have that dimension. An operator
// retains a limited number of states, and more dimensions mean more candidates for them. A solution
// for the narrower dimensions is valid for the wider ones.
std::vector<Dims> list_with_narrower(const Dims& dims,
                                     const std::vector<strategies::AnalyzedNode>& nodes);

// Returns whether `f` may be partitioned under `dims`.
bool is_allowed(const strategies::AnalyzedNode& node, ops::FactorId f, const Dims& dims);

// Most devices of a machine on which every layout is listed.
constexpr std::int64_t kSmallMachine = 4;
inline bool is_small(const machine::Digits& digits) {
  return digits.devices() <= kSmallMachine && digits.micro_batches() == 1;
}

// Restrictions and extensions of the listed layouts.
struct Freedom {
  machine::DigitMask redundant = 0;  // digits that may not be used, since they distinguish stages
  // The other fields apply only to small machines.
  ops::InputMask partial = 0;  // operands that may be partial sums, since operators compute them
  bool places = false;         // idle digits may be at any place, since devices are not all equal
};

std::vector<machine::NodeLayout> list_node_layouts(const strategies::AnalyzedNode& node,
                                                   const machine::Digits& digits, const Dims& dims,
                                                   const Freedom& freedom = {});

// Returns the layouts of a tensor on a small machine. They include partial sums if any operand may
// be one.
std::vector<machine::Layout> list_tensor_layouts(const Shape& sizes, const machine::Digits& digits,
                                                 const Freedom& freedom = {});

}  // namespace tandem::search

// The layouts a node or a tensor may take in the search, as assignments of machine digits.
//
// On a small machine all. On a larger one, within a level, the first digits may run along the batch
// and all others share one more use (a factor, redundant copies, or idleness), and no partial sum
// passes through: what differs only by symmetry is listed once, and so is some that does not, for
// there are too many. Idle digits are at place 0, which is as good as any other where all devices
// are equal.
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

// `dims`, and before it the same without the sequence where nodes have one: an operator keeps so
// many states, and along one dimension more there are more to choose from. What is found with the
// fewer is to be had with the more.
std::vector<Dims> with_narrower(const Dims& dims,
                                const std::vector<strategies::AnalyzedNode>& nodes);

// May `f` be partitioned under `dims`?
bool is_allowed(const strategies::AnalyzedNode& node, ops::FactorId f, const Dims& dims);

// Where every layout is listed.
constexpr std::int64_t kSmallMachine = 4;  // devices
inline bool is_small(const machine::Digits& digits) {
  return digits.devices() <= kSmallMachine && digits.micro_batches() == 1;
}

// What layouts may be.
struct Freedom {
  machine::DigitMask redundant = 0;  // digits that may not be used: they tell stages apart
  // On a small machine.
  ops::InputMask partial = 0;  // operands that may come as partial sums: those operators make
  bool places = false;         // idle digits at other places than 0: devices are not all equal
};

std::vector<machine::NodeLayout> node_layouts(const strategies::AnalyzedNode& node,
                                              const machine::Digits& digits, const Dims& dims,
                                              const Freedom& freedom = {});

// Of a tensor on a small machine, partial sums included if any operand may come as one.
std::vector<machine::Layout> tensor_layouts(const Shape& sizes, const machine::Digits& digits,
                                            const Freedom& freedom = {});

}  // namespace tandem::search

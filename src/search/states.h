// The layouts a node may take in the search, as assignments of machine digits.
//
// Within a level, the first digits may run along the batch and all others share one more use (a
// factor, redundant copies, or idleness): what differs only by symmetry is listed once.
#pragma once

#include <set>
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
  bool sequence = true;
  bool pipeline = true;
};

// May `f` be partitioned under `dims`?
bool is_allowed(const strategies::AnalyzedNode& node, ops::FactorId f, const Dims& dims);

std::vector<machine::NodeLayout> node_layouts(const strategies::AnalyzedNode& node,
                                              const machine::Digits& digits, const Dims& dims);

}  // namespace tandem::search

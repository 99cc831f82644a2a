// Bandwidths of collectives in MAD-Max's public model. They are per device and do not depend on the
// message size or the number of devices.
#pragma once

#include <array>

#include "madmax/inputs.h"

namespace tandem::madmax {

// Bandwidths by place: [0] inside a node, [1] across nodes.
struct Bandwidths {
  std::array<BytesPerSecond, 2> all_to_all = {};
  std::array<BytesPerSecond, 2> all_reduce = {};
  std::array<BytesPerSecond, 2> gather = {};  // and of reduce-scatter: twice the all-reduce's
};

// Returns the bandwidths of `system`. Across nodes, an all-reduce runs at the mean of the two
// bandwidths, weighted by `intra_share`: a mean of rates, not of times. On one node, both places
// are inside it.
Bandwidths compute_bandwidths(const System& system);

// Parallelism of one kind of layer: the degrees of its strategy, and the bandwidths of the
// collectives that it uses.
struct Sharing {
  double tensor = 1;
  double shard = 1;
  double replicate = 1;
  double first = 1;      // degree of the first level
  int tensor_level = 0;  // level of the strategy that has tensor parallelism
  int levels = 1;
  bool gradient_first = false;       // tensor parallelism is not the first level
  BytesPerSecond exchange = {};      // all-to-all of experts
  BytesPerSecond activation = {};    // all-reduce of tensor parallelism
  BytesPerSecond gather = {};        // all-gather and reduce-scatter of FSDP
  BytesPerSecond gradient = {};      // all-reduce of DDP
  BytesPerSecond first_gather = {};  // all-gather over the first level
};
Sharing compute_sharing(const LayerStrategy& strategy, const Bandwidths& bandwidths);

// Returns the place where level `level` of `levels` communicates: a single level across nodes, two
// levels inside and across. Wraps around, as the public code does where it confuses the levels of
// two strategies.
int find_place(int level, int levels);

}  // namespace tandem::madmax

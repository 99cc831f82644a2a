// How fast collectives are in MAD-Max's public model: bandwidth alone, for every device, whatever
// the size of the message and the number of devices.
#pragma once

#include <array>

#include "madmax/inputs.h"

namespace tandem::madmax {

// [0] inside a node, [1] across nodes.
struct Bandwidths {
  std::array<BytesPerSecond, 2> all_to_all = {};
  std::array<BytesPerSecond, 2> all_reduce = {};
  std::array<BytesPerSecond, 2> gather = {};  // and of reduce-scatter: twice the all-reduce's
};

// Across nodes an all-reduce runs at the mean of the two bandwidths, weighted by `intra_share`; the
// mean is of the rates, not of the times. On one node both places are inside it.
Bandwidths bandwidths(const System& system);

// How one kind of layer is shared: the degrees of its strategy, and the bandwidths of the
// collectives that the strategy asks for.
struct Sharing {
  double tensor = 1;
  double shard = 1;
  double replicate = 1;
  double first = 1;      // degree of the first level
  int tensor_level = 0;  // of the strategy's levels, the one with tensor parallelism
  int levels = 1;
  bool gradient_first = false;       // tensor parallelism is not the first level
  BytesPerSecond exchange = {};      // experts' all-to-all
  BytesPerSecond activation = {};    // tensor parallelism's all-reduce
  BytesPerSecond gather = {};        // FSDP's all-gather and reduce-scatter
  BytesPerSecond gradient = {};      // DDP's all-reduce
  BytesPerSecond first_gather = {};  // an all-gather over the first level
};
Sharing share(const Strategy& strategy, const Bandwidths& bandwidths);

// Where the `level`th of `levels` levels communicates: a lone level goes across nodes, two are
// inside and across. Wraps around, as the public code does where it mixes up the levels of two
// strategies.
int place(int level, int levels);

}  // namespace tandem::madmax

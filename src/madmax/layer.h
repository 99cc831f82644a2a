// What a layer costs one device: its work, divided by the degrees of a strategy and by the rates of
// a system.
#pragma once

#include "madmax/bandwidths.h"

namespace tandem::madmax {

// A layer on one device. Times of zero: there is none of it.
struct Layer {
  Seconds compute = {};           // forward; the backward pass takes twice that
  Seconds gather = {};            // FSDP: all-gather of its weights, before it in either direction
  Seconds scatter = {};           // FSDP: reduce-scatter of its gradient
  Seconds gradient = {};          // DDP: all-reduce of its gradient; nothing waits for it
  Seconds exchange = {};          // experts: all-to-all of activations, before it and after it
  Seconds activation = {};        // tensor parallelism: all-reduce of its result, forward
  Seconds activation_back = {};   // and in the backward pass
  bool activation_blocks = true;  // in the backward pass the next layer waits for that
  bool gradient_first = false;    // its gradient is communicated before the activation
  Bytes weights = {};             // that the device keeps
};

// The layers of an MLP; the result of every second one is all-reduced.
struct Mlp {
  int layers = 0;
  Layer odd = {};   // the first, the third, ...
  Layer even = {};  // the second, the fourth, ...
};
enum class MlpPart { kBottom, kTop };  // only the top has experts
Mlp make_mlp(MlpPart part, const Model& model, const System& system, const Sharing& sharing,
             double batch);

struct Blocks {
  int count = 0;
  Layer attention = {};
  Layer ffn = {};
};
Blocks make_blocks(const Model& model, const System& system, const Sharing& sharing, double batch);

// Embedding tables, the lookups of a batch in them.
struct Embedding {
  Seconds lookup = {};    // forward; the backward pass takes as long
  Seconds exchange = {};  // tables that are spread: all-to-all of what was looked up
  Seconds gradient = {};  // tables that are copied: all-reduce of as much
  Bytes weights = {};
};
Embedding make_embedding(const Model& model, const System& system, const Task& task,
                         const Bandwidths& bandwidths);

// The weights of a device in all layers of a kind.
Bytes weights_of(const Mlp& mlp);
Bytes weights_of(const Blocks& blocks);

}  // namespace tandem::madmax

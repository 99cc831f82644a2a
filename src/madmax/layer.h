// Costs of a layer on one device: its work, divided by the degrees of a strategy and the rates of a
// system.
#pragma once

#include "madmax/bandwidths.h"

namespace tandem::madmax {

// A layer on one device. A time of zero means that it has no such operation.
struct Layer {
  Seconds compute = {};           // forward; the backward pass takes twice as long
  Seconds gather = {};            // FSDP: all-gather of its weights, before it in both directions
  Seconds scatter = {};           // FSDP: reduce-scatter of its gradient
  Seconds gradient = {};          // DDP: all-reduce of its gradient; nothing waits for it
  Seconds exchange = {};          // experts: all-to-all of activations, before it and after it
  Seconds activation = {};        // tensor parallelism: all-reduce of its result, forward
  Seconds activation_back = {};   // tensor parallelism: all-reduce in the backward pass
  bool activation_blocks = true;  // whether the next layer of the backward pass waits for that
  bool gradient_first = false;    // whether its gradient is communicated before the activation
  Bytes weights = {};             // stored on the device
};

// The layers of an MLP. The result of every second layer is all-reduced.
struct Mlp {
  int layers = 0;
  Layer odd = {};   // the first, the third, ...
  Layer even = {};  // the second, the fourth, ...
};
enum class MlpPart { kBottom, kTop };  // only the top has experts
Mlp make_mlp(MlpPart part, const Model& model, const System& system, const Sharing& sharing,
             double batch);

struct TransformerBlocks {
  int count = 0;
  Layer attention = {};
  Layer ffn = {};
};
TransformerBlocks make_blocks(const Model& model, const System& system, const Sharing& sharing,
                              double batch);

// Embedding tables and the lookups of a batch.
struct Embedding {
  Seconds lookup = {};    // forward; the backward pass takes as long
  Seconds exchange = {};  // distributed tables: all-to-all of the looked-up vectors
  Seconds gradient = {};  // replicated tables: all-reduce of as many bytes
  Bytes weights = {};
};
Embedding make_embedding(const Model& model, const System& system, const TaskDescription& task,
                         const Bandwidths& bandwidths);

// Return the weight bytes of a device in all layers of a kind.
Bytes sum_weights(const Mlp& mlp);
Bytes sum_weights(const TransformerBlocks& blocks);

}  // namespace tandem::madmax

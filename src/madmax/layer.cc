#include "madmax/layer.h"

namespace tandem::madmax {

namespace {

// Work of a layer for the local batch, before it is divided among devices.
struct LayerWork {
  Flops flops = {};       // forward
  Bytes weights = {};     // of all experts
  Bytes activation = {};  // its result
  Bytes exchange = {};    // between experts
};

Layer make_layer(const LayerWork& work, const Sharing& sharing, FlopsPerSecond speed) {
  const bool has_tensor = sharing.tensor > 1;
  const auto slice = work.weights / sharing.tensor;
  Layer out = {};
  out.compute = work.flops / sharing.tensor / speed;
  out.gradient_first = sharing.gradient_first;
  out.weights = slice / sharing.shard;
  if (sharing.shard > 1) out.gather = out.scatter = slice / sharing.gather;
  if (sharing.replicate > 1) {
    // (tp, ddp) reduces the gradient of the whole layer, (ddp, tp) that of a slice.
    out.gradient = (sharing.gradient_first ? slice : work.weights) / sharing.gradient;
  }
  if (has_tensor) {
    out.activation = out.activation_back = work.activation / sharing.activation;
    out.exchange = work.exchange / sharing.exchange;
  }
  return out;
}

}  // namespace

Mlp make_mlp(MlpPart part, const Model& model, const System& system, const Sharing& sharing,
             double batch) {
  const auto& sizes = model.recommendation;
  const bool has_experts = part == MlpPart::kTop && model.experts > 1;
  const double values = sizes.width * sizes.width;
  const Bytes activation{batch * sizes.width * model.value_bytes};
  LayerWork work{.flops = Flops{2 * values * batch},
                 .weights = Bytes{values * model.value_bytes},
                 .activation = activation};
  if (has_experts) {
    work.flops = work.flops * model.active_experts;
    work.weights = work.weights * model.experts;
    work.exchange = activation / model.experts;
  }
  Mlp out{.layers = part == MlpPart::kTop ? sizes.top_layers : sizes.bottom_layers};
  out.even = make_layer(work, sharing, system.speed(model.value_bytes));
  out.odd = out.even;
  out.odd.activation = out.odd.activation_back = {};
  return out;
}

TransformerBlocks make_blocks(const Model& model, const System& system, const Sharing& sharing,
                              double batch) {
  const auto& sizes = model.transformer;
  const auto speed = system.speed(model.value_bytes);
  const double tokens = batch * sizes.tokens;
  const double attention = 4 * sizes.width * sizes.width;  // without attention scores
  const double ffn = 2 * sizes.width * sizes.ffn_width;
  const Bytes activation{tokens * sizes.width * model.value_bytes};
  const auto flops = [&](double values) { return Flops{2 * values * tokens}; };
  const auto bytes = [&](double values) { return Bytes{values * model.value_bytes}; };

  LayerWork mixed{.flops = flops(ffn), .weights = bytes(ffn), .activation = activation};
  if (model.experts > 1) {
    mixed.flops = mixed.flops * model.active_experts;
    mixed.weights = mixed.weights * model.experts;
    mixed.exchange = activation / model.experts;
  }
  return {.count = sizes.blocks,
          .attention = make_layer(
              {.flops = flops(attention), .weights = bytes(attention), .activation = activation},
              sharing, speed),
          .ffn = make_layer(mixed, sharing, speed)};
}

Embedding make_embedding(const Model& model, const System& system, const TaskDescription& task,
                         const Bandwidths& bandwidths) {
  const auto& tables = model.recommendation;
  const auto& sequence = model.transformer;
  // A sequence looks up every token and its position. A DLRM's vectors are counted before pooling.
  const double values = is_recommendation(model.family)
                            ? tables.tables * tables.lookups * tables.embedding_width
                            : 2 * sequence.tokens * sequence.width;
  const double stored = is_recommendation(model.family)
                            ? tables.tables * tables.rows * tables.embedding_width
                            : (sequence.rows + sequence.tokens) * sequence.width;
  const auto& [method, devices] = task.embedding.level[0];
  const bool spread = method == Method::kTables;
  const double parts = spread ? devices : 1;
  const Bytes bytes{values * model.embedding_value_bytes * task.embedding_batch / parts};

  Embedding out{.lookup = bytes / (system.memory_bandwidth * system.memory_utilization),
                .weights = Bytes{stored * model.embedding_value_bytes / parts}};
  if (spread) {
    out.exchange = bytes * 2 / parts / bandwidths.all_to_all[1];
  } else {
    out.gradient = bytes / bandwidths.all_reduce[1];
  }
  return out;
}

Bytes sum_weights(const Mlp& mlp) { return mlp.odd.weights * mlp.layers; }

Bytes sum_weights(const TransformerBlocks& blocks) {
  return (blocks.attention.weights + blocks.ffn.weights) * blocks.count;
}

}  // namespace tandem::madmax

// DLRMs. Forward: embeddings, bottom MLP, transformer, top MLP; backward: the reverse. The
// all-to-all of the embeddings overlaps with the bottom MLP, and the part after the bottom MLP
// waits for it.
#include "madmax/evaluate.h"
#include "madmax/iteration.h"

namespace tandem::madmax {

namespace {

struct DlrmNetwork {
  Embedding embedding = {};
  Mlp bottom = {};
  TransformerBlocks blocks = {};  // only for kDlrmTransformer
  Mlp top = {};
};

// Reproduces an error of the public code for models with a transformer between the MLPs. Two
// all-reduces of the backward pass use the other part's number of levels: the top MLP's that of the
// transformer, the FFN's that of the MLP. Attention does not wait for the FFN's all-reduce.
void mix_up_levels(const Sharing& mlp, const Sharing& transformer, const Bandwidths& bandwidths,
                   DlrmNetwork& network) {
  const auto rescale = [&](const Sharing& own, int levels, Layer& layer) {
    const auto at = static_cast<std::size_t>(find_place(own.tensor_level, levels));
    layer.activation_back = layer.activation * (own.activation / bandwidths.all_reduce[at]);
  };
  rescale(mlp, transformer.levels, network.top.even);
  rescale(transformer, mlp.levels, network.blocks.ffn);
  network.blocks.ffn.activation_blocks = false;
}

DlrmNetwork make_network(const Model& model, const System& system, const TaskDescription& task,
                         const Sharing& mlp) {
  const auto speeds = compute_bandwidths(system);
  DlrmNetwork out{.embedding = make_embedding(model, system, task, speeds),
                  .bottom = make_mlp(MlpPart::kBottom, model, system, mlp, task.mlp_batch),
                  .blocks = {},
                  .top = make_mlp(MlpPart::kTop, model, system, mlp, task.mlp_batch)};
  if (has_transformer(model.family)) {
    const auto transformer = compute_sharing(task.transformer, speeds);
    out.blocks = make_blocks(model, system, transformer, task.transformer_batch);
    mix_up_levels(mlp, transformer, speeds, out);
  }
  return out;
}

void forward(const Mlp& mlp, Iteration& iteration) {
  for (int i = 0; i < mlp.layers; ++i) iteration.forward(i % 2 == 0 ? mlp.odd : mlp.even);
}

void backward(const Mlp& mlp, bool synchronised, Iteration& iteration) {
  for (int i = 0; i < mlp.layers; ++i) {
    const auto& layer = i % 2 == 0 ? mlp.odd : mlp.even;
    iteration.backward(layer, iteration.gather(layer), synchronised);
  }
}

void forward(const DlrmNetwork& network, Iteration& iteration) {
  const auto& embedding = network.embedding;
  const auto looked_up = iteration.compute(Compute::kEmbedding, embedding.lookup);
  const auto exchanged =
      iteration.communicate(Collective::kAllToAll, embedding.exchange, looked_up);
  forward(network.bottom, iteration);
  iteration.wait(exchanged);
  for (int i = 0; i < network.blocks.count; ++i) {
    iteration.forward(network.blocks.attention);
    iteration.forward(network.blocks.ffn);
  }
  forward(network.top, iteration);
}

// Runs the backward pass. Frozen lower layers are skipped; a frozen top MLP only does not
// communicate its gradients.
void backward(const DlrmNetwork& network, const Frozen& frozen, Iteration& iteration) {
  const auto& blocks = network.blocks;
  backward(network.top, !frozen.top, iteration);
  for (int i = 0; i < blocks.count && !frozen.transformer; ++i) {
    iteration.backward(blocks.ffn, iteration.gather(blocks.ffn), true);
    iteration.backward(blocks.attention, iteration.gather(blocks.attention), true);
  }
  Seconds exchanged = {};
  if (!frozen.embedding) {
    exchanged = iteration.communicate(Collective::kAllToAll, network.embedding.exchange,
                                      iteration.compute_end());
  }
  if (!frozen.bottom) backward(network.bottom, true, iteration);
  if (!frozen.embedding) {
    iteration.compute(Compute::kEmbedding, network.embedding.lookup, exchanged);
  }
}

}  // namespace

IterationResult evaluate_recommendation(const Model& model, const System& system,
                                        const TaskDescription& task) {
  const auto mlp = compute_sharing(task.mlp, compute_bandwidths(system));
  const auto network = make_network(model, system, task, mlp);
  Iteration iteration;
  forward(network, iteration);
  if (task.purpose != Purpose::kInference) {
    iteration.barrier();
    backward(network, task.frozen, iteration);
  }
  return {.global_batch = task.mlp_batch * system.devices / mlp.tensor,
          .iteration = iteration.end(),
          .totals = iteration.totals(),
          .weights = network.embedding.weights + sum_weights(network.bottom) +
                     sum_weights(network.blocks) + sum_weights(network.top)};
}

}  // namespace tandem::madmax

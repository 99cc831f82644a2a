// Language and vision models. Forward: an embedding, then equal blocks of attention and FFN;
// backward: the reverse. The embedding's gradient waits for all earlier communication.
#include "madmax/evaluate.h"
#include "madmax/iteration.h"

namespace tandem::madmax {

namespace {

void forward(const Embedding& embedding, const TransformerBlocks& blocks, Iteration& iteration) {
  const auto looked_up = iteration.compute(Compute::kEmbedding, embedding.lookup);
  if (embedding.exchange > Seconds{}) {
    iteration.wait(iteration.communicate(Collective::kAllToAll, embedding.exchange, looked_up));
  }
  for (int i = 0; i < blocks.count; ++i) {
    iteration.forward(blocks.attention);
    iteration.forward(blocks.ffn);
  }
}

void backward(const TransformerBlocks& blocks, int synchronised, Iteration& iteration) {
  for (int i = blocks.count - 1; i >= 0; --i) {
    iteration.backward(blocks.ffn, iteration.gather(blocks.ffn), i < synchronised);
    iteration.backward(blocks.attention, iteration.gather(blocks.attention), i < synchronised);
  }
}

// Runs the backward pass of vision models, which prefetch without a limit: a layer's weights are
// gathered while the layer before it is computed. The first gather happens even if nothing is
// sharded, as if the strategy's first level were FSDP.
void backward_prefetching(const TransformerBlocks& blocks, const Sharing& sharing, int synchronised,
                          Iteration& iteration) {
  const auto gather = [&](const Layer& layer) {
    return layer.gather > Seconds{} ? iteration.communicate(Collective::kAllGather, layer.gather)
                                    : Seconds{};
  };
  auto gathered = iteration.communicate(Collective::kAllGather,
                                        blocks.ffn.weights * sharing.first / sharing.first_gather);
  for (int i = blocks.count - 1; i >= 0; --i) {
    const auto attention_gathered = gather(blocks.attention);
    iteration.backward(blocks.ffn, gathered, i < synchronised);
    gathered = i > 0 ? gather(blocks.ffn) : Seconds{};
    iteration.backward(blocks.attention, attention_gathered, i < synchronised);
  }
}

void backward(const Embedding& embedding, Iteration& iteration) {
  if (embedding.exchange > Seconds{}) {
    iteration.communicate(Collective::kAllToAll, embedding.exchange, iteration.compute_end());
  }
  iteration.compute(Compute::kEmbedding, embedding.lookup, iteration.network_end());
  if (embedding.gradient > Seconds{}) {
    iteration.communicate(Collective::kAllReduce, embedding.gradient, iteration.compute_end());
  }
}

}  // namespace

IterationResult evaluate_transformer(const Model& model, const System& system,
                                     const TaskDescription& task) {
  const auto speeds = compute_bandwidths(system);
  const auto sharing = compute_sharing(task.transformer, speeds);
  const auto blocks = make_blocks(model, system, sharing, task.transformer_batch);
  const auto embedding = make_embedding(model, system, task, speeds);
  Iteration iteration;
  forward(embedding, blocks, iteration);
  if (task.purpose != Purpose::kInference) {
    iteration.barrier();
    if (model.family == ModelFamily::kVision) {
      backward_prefetching(blocks, sharing, task.trained_blocks, iteration);
    } else {
      backward(blocks, task.trained_blocks, iteration);
    }
    if (!task.frozen.embedding) backward(embedding, iteration);
  }
  return {.global_batch = task.transformer_batch * system.devices / sharing.tensor,
          .iteration = iteration.end(),
          .totals = iteration.totals(),
          .weights = embedding.weights + sum_weights(blocks)};
}

}  // namespace tandem::madmax

// BERT-Large (Devlin et al., 2018, arXiv:1810.04805) as it is pre-trained on masked words: 24
// layers of 1024, 16 heads, FFN 4096, GELU, sequence 512. The LM head is a dense layer, GELU, a
// norm, and a matmul with the token embedding's table. The loss is over all positions. The second
// task, next sentence, and its pooler are omitted.
//
// The artifact of Unity (OSDI'22) has 12 layers, FFN 1024 with ReLU, no residuals, norms, biases or
// embeddings, and a dense layer of width 1 with a squared error.
#include <fmt/format.h>

#include "models/encoder.h"
#include "ops/registry.h"

namespace tandem::models {

namespace {

graph::Graph build_bert_artifact(const Settings& settings, std::int64_t batch, DType dtype) {
  const auto attention = read_attention_options(settings);
  const auto hidden = settings.size("hidden");
  graph::GraphBuilder graph(settings.model());
  const Block b(graph, dtype);
  auto x = b.input("x", {batch, settings.size("seq"), hidden});
  for (std::int64_t i = 0; i < settings.size("layers"); ++i) {
    const auto layer = b.scope(fmt::format("l{}", i));
    x = layer.feed_forward(layer.attention(x, attention),
                           {.width = settings.size("ffn"), .activation = &ops::kRelu});
  }
  return graph.finish({b.regression_loss(b.linear(x, 1, "head"))});
}

std::vector<Hyperparameter> bert_hyperparameters() {
  auto out = encoder_hyperparameters({.layers = 24,
                                      .hidden = 1024,
                                      .heads = 16,
                                      .ffn = 4096,
                                      .vocab = 30522,
                                      .types = 2,
                                      .seq = 512});
  for (auto& h : out) {
    if (h.key == "layers") h.artifact = "12";
    if (h.key == "ffn") h.artifact = "1024";
  }
  out.push_back(
      variant_hyperparameter("12 layers, FFN 1024, no embeddings, residuals, norms or biases"));
  return out;
}

}  // namespace

const ModelSpec kBertLarge = {
    .name = "bert_large",
    .doc = "BERT-Large with embeddings and masked-LM head (arXiv:1810.04805)",
    .hyperparameters = bert_hyperparameters(),
    .batch_per_device = 4,
    .train_batch = 8,
    .adam = true,
    .build =
        [](const Settings& s, std::int64_t batch, DType dtype) {
          return s.is_artifact() ? build_bert_artifact(s, batch, dtype)
                                 : build_encoder({}, s, batch, dtype);
        },
};

}  // namespace tandem::models

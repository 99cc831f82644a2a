// BERT-Large (Devlin et al., 2018, arXiv:1810.04805) as it is pre-trained on masked words: 24
// layers of 1024, 16 heads, FFN 4096, GELU, sequence 512; the head is a dense layer, GELU, a norm,
// and a product with the token embedding's table. The loss is over all positions. Left out are the
// second task, next sentence, and with it the pooler.
//
// The artifact of Unity (OSDI'22) has 12 layers, FFN 1024 with a rectifier, no residuals, norms,
// biases or embeddings, and a dense layer of width 1 with a squared error.
#include <fmt/format.h>

#include <algorithm>

#include "models/blocks.h"
#include "models/model.h"
#include "ops/registry.h"

namespace tandem::models {

namespace {

constexpr NormOptions kBertNorm = {NormKind::kLayer, 1e-12};
constexpr std::int64_t kPositions = 512;

graph::Graph build_bert(const Settings& settings, std::int64_t batch, DType dtype) {
  const auto seq = settings.size("seq");
  const auto hidden = settings.size("hidden");
  const auto vocab = settings.size("vocab");
  TransformerOptions layer{
      .attention = attention_options(settings),
      .feed_forward = {.width = settings.size("ffn"), .activation = &ops::kGelu, .bias = true},
      .norm = kBertNorm,
      .norm_first = false};
  layer.attention.bias = true;

  graph::GraphBuilder graph(settings.model());
  const Block b(graph, dtype);
  const auto tokens = b.embedding("tokens", {batch, seq}, vocab, hidden);
  auto x = b.add_positions(tokens.rows, std::max(kPositions, seq));
  const auto types = b.embedding("types", {batch, seq}, settings.size("types"), hidden);
  x = b.norm(b.add(ops::kAdd, {x, types.rows}, "types_sum"), kBertNorm, "embedding_norm");
  for (std::int64_t i = 0; i < settings.size("layers"); ++i) {
    x = b.in(fmt::format("l{}", i)).transformer_layer(x, layer);
  }
  x = b.add(ops::kGelu, {b.linear(x, hidden, "head", Bias::kInside)}, "head_gelu");
  x = b.norm(x, kBertNorm, "head_norm");
  const auto bias = b.weight("b_logits", {vocab});
  const auto logits = b.add(ops::kLinear, {x, tokens.table, bias}, "logits");
  return graph.finish({b.classification_loss(logits)});
}

graph::Graph build_bert_artifact(const Settings& settings, std::int64_t batch, DType dtype) {
  const auto attention = attention_options(settings);
  const auto hidden = settings.size("hidden");
  graph::GraphBuilder graph(settings.model());
  const Block b(graph, dtype);
  auto x = b.input("x", {batch, settings.size("seq"), hidden});
  for (std::int64_t i = 0; i < settings.size("layers"); ++i) {
    const auto layer = b.in(fmt::format("l{}", i));
    x = layer.feed_forward(layer.attention(x, attention),
                           {.width = settings.size("ffn"), .activation = &ops::kRelu});
  }
  return graph.finish({b.regression_loss(b.linear(x, 1, "head"))});
}

}  // namespace

const ModelSpec kBertLarge = {
    .name = "bert_large",
    .doc = "BERT-Large with its embeddings and masked-word head (arXiv:1810.04805)",
    .hyperparameters = {{"layers", "24", "encoder layers", "12"},
                        {"hidden", "1024", "model width"},
                        {"heads", "16", "attention heads"},
                        {"kv_heads", "heads", "heads of keys and values, a divisor of heads"},
                        {"ffn", "4096", "width inside the feed-forward block", "1024"},
                        {"vocab", "30522", "tokens in the vocabulary (not in the artifact)"},
                        {"types", "2", "kinds of segments (not in the artifact)"},
                        {"seq", "512", "sequence length"},
                        {"attention", "plain",
                         "plain (scores, softmax, mix) or fused (one operator)"},
                        variant_hyperparameter(
                            "12 layers, FFN 1024, no embeddings, residuals, norms or biases")},
    .batch_per_device = 4,
    .train_batch = 8,
    .adam = true,
    .build =
        [](const Settings& s, std::int64_t batch, DType dtype) {
          return s.is_artifact() ? build_bert_artifact(s, batch, dtype)
                                 : build_bert(s, batch, dtype);
        },
};

}  // namespace tandem::models

#include "models/encoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/registry.h"

namespace tandem::models {

std::vector<Hyperparameter> encoder_hyperparameters(const EncoderSizes& s) {
  const auto text = [](std::int64_t v) { return fmt::format("{}", v); };
  return {{"layers", text(s.layers), "encoder layers"},
          {"hidden", text(s.hidden), "model width"},
          {"heads", text(s.heads), "attention heads"},
          {"kv_heads", "heads", "key and value heads, a divisor of heads"},
          {"ffn", text(s.ffn), "width of the feed-forward block"},
          {"vocab", text(s.vocab), "vocabulary size"},
          {"types", text(s.types), "segment types"},
          {"seq", text(s.seq), "sequence length"},
          {"attention", "plain",
           "plain (scores, softmax, values), wide (plain with softmax in fp32) or fused"}};
}

graph::Graph build_encoder(const Encoder& encoder, const Settings& settings, std::int64_t batch,
                           DType dtype) {
  const auto& activation = encoder.activation != nullptr ? *encoder.activation : ops::kGelu;
  const auto seq = settings.size("seq");
  const auto hidden = settings.size("hidden");
  const auto vocab = settings.size("vocab");
  TransformerOptions layer{
      .attention = read_attention_options(settings),
      .feed_forward = {.width = settings.size("ffn"), .activation = &activation, .bias = true},
      .norm = encoder.norm,
      .norm_first = false};
  layer.attention.bias = true;

  graph::GraphBuilder graph(settings.model());
  const Block b(graph, dtype);
  const auto tokens = b.embedding("tokens", {batch, seq}, vocab, hidden);
  auto x = b.add_positions(tokens.rows, std::max(encoder.positions, seq));
  const auto types = b.embedding("types", {batch, seq}, settings.size("types"), hidden);
  x = b.norm(b.add(ops::kAdd, {x, types.rows}, "types_sum"), encoder.norm, "embedding_norm");
  for (std::int64_t i = 0; i < settings.size("layers"); ++i) {
    x = b.scope(fmt::format("l{}", i)).transformer_layer(x, layer);
  }
  const auto head = b.linear(x, hidden, "head", Bias::kInside);
  x = b.add(activation, {head}, fmt::format("head_{}", activation.name));
  x = b.norm(x, encoder.norm, "head_norm");
  const auto bias = b.weight("b_logits", {vocab});
  const auto logits = b.add(ops::kLinear, {x, tokens.table, bias}, "logits");
  return graph.finish({b.classification_loss(logits)});
}

}  // namespace tandem::models

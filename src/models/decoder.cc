#include "models/decoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/registry.h"

namespace tandem::models {

namespace {

TransformerOptions layer_options(const Decoder& decoder, const Settings& settings) {
  TransformerOptions out{.attention = attention_options(settings),
                         .feed_forward = {.width = settings.size("ffn"),
                                          .activation = decoder.activation,
                                          .gated = decoder.gated,
                                          .bias = decoder.bias},
                         .norm = decoder.norm};
  out.attention.bias = decoder.bias;
  out.attention.causal = true;
  out.dropout = settings.has("dropout") && settings.choice("dropout", {"true", "false"}) == "true";
  out.attention.dropout = out.dropout;
  if (out.dropout && out.attention.fused) {
    settings.fail("dropout=true needs attention=plain: the fused operator drops nothing");
  }
  out.attention.rope_base = decoder.rope_base;
  check_rope(settings, out.attention);
  if (settings.has("experts")) out.experts = expert_options(settings);
  return out;
}

// What `size` lacks to be a multiple of `unit`.
std::int64_t padding_to(std::int64_t size, std::int64_t unit) {
  return (unit - size % unit) % unit;
}

}  // namespace

std::vector<Hyperparameter> decoder_hyperparameters(const DecoderSizes& s) {
  const auto text = [](std::int64_t v) { return fmt::format("{}", v); };
  std::vector<Hyperparameter> out = {
      {"layers", text(s.layers), "transformer layers"},
      {"hidden", text(s.hidden), "model width"},
      {"heads", text(s.heads), "attention heads"},
      {"kv_heads", s.kv_heads == s.heads ? "heads" : text(s.kv_heads),
       "heads of keys and values, a divisor of heads"},
      {"ffn", text(s.ffn), "width inside the feed-forward block"},
      {"vocab", text(s.vocab), "tokens in the vocabulary"},
      {"vocab_pad", "1", "tables of tokens have a multiple of this many rows"},
      {"seq", text(s.seq), "sequence length"},
      {"attention", s.attention, "plain (scores, softmax, mix) or fused (one operator)"},
  };
  if (s.dropout) {
    out.push_back({"dropout", "false", "of probabilities and of what a layer adds: true or false"});
  }
  if (s.experts > 0) {
    for (auto& h : expert_hyperparameters(s.experts, s.active_experts)) out.push_back(h);
  }
  return out;
}

graph::Graph build_decoder(const Decoder& decoder, const Settings& settings, std::int64_t batch,
                           DType dtype) {
  const auto layer = layer_options(decoder, settings);
  const auto seq = settings.size("seq");
  const auto vocab = settings.size("vocab");
  graph::GraphBuilder graph(settings.model());
  const Block b(graph, dtype);
  const auto padding = padding_to(vocab, settings.size("vocab_pad"));
  const auto tokens = b.embedding("tokens", {batch, seq}, vocab, settings.size("hidden"), padding);
  auto x = tokens.rows;
  if (!decoder.rope_base) x = b.add_positions(x, std::max(decoder.context, seq));
  for (std::int64_t i = 0; i < settings.size("layers"); ++i) {
    x = b.in(fmt::format("l{}", i)).transformer_layer(x, layer);
  }
  x = b.norm(x, decoder.norm, "final_norm");
  auto logits = decoder.tied ? b.add(ops::kLinear, {x, tokens.table}, "logits")
                             : b.linear(x, vocab + padding, "logits");
  if (padding > 0) {
    const ops::Slice of_tokens{.axis = 2, .begin = 0, .size = vocab};
    logits = b.add(ops::kSlice, of_tokens, {logits}, "logits_of_tokens");
  }
  return graph.finish({b.classification_loss(logits)});
}

Decoder llama_decoder(double rope_base, double eps) {
  return {.activation = &ops::kSilu,
          .gated = true,
          .norm = {NormKind::kRms, eps},
          .rope_base = rope_base};
}

}  // namespace tandem::models

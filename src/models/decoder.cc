#include "models/decoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/registry.h"

namespace tandem::models {

namespace {

bool is_plain(const Settings& settings, const std::string& what) {
  return settings.has(what) && settings.choice(what, {"fused", "plain"}) == "plain";
}

TransformerOptions read_layer_options(const Decoder& decoder, const Settings& settings) {
  TransformerOptions out{.attention = read_attention_options(settings),
                         .feed_forward = {.width = settings.size("ffn"),
                                          .activation = decoder.activation,
                                          .gated = decoder.gated,
                                          .bias = decoder.bias},
                         .norm = decoder.norm};
  out.norm.plain = is_plain(settings, "norm");
  out.attention.bias = decoder.bias;
  out.attention.cache = settings.size("cache", 0);
  out.attention.causal = out.attention.cache == 0;  // one token sees all before it
  const bool drops =
      settings.has("dropout") && settings.choice("dropout", {"true", "false"}) == "true";
  out.dropout = drops && out.attention.cache == 0;  // only training drops
  out.attention.dropout = out.dropout;
  if (out.dropout && out.attention.fused) {
    settings.fail(
        "dropout=true requires attention=plain, because the fused operator has no dropout");
  }
  out.attention.rope_base = decoder.rope_base;
  check_rope(settings, out.attention);
  if (settings.has("experts")) out.experts = read_expert_options(settings);
  return out;
}

// Finishes the inference step, which makes one token of every sequence from the tokens before it.
graph::Graph finish_decoding(graph::GraphBuilder& graph, NodeId logits) {
  std::vector<NodeId> outputs = {logits};
  for (std::size_t n = 0; n < graph.size(); ++n) {
    if (graph.node(NodeId(n)).op.is(ops::kAppend)) outputs.emplace_back(n);
  }
  return graph.finish(std::move(outputs));
}

// Returns the padding of `size` to a multiple of `unit`.
std::int64_t compute_padding(std::int64_t size, std::int64_t unit) {
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
       "key and value heads, a divisor of heads"},
      {"ffn", text(s.ffn), "width of the feed-forward block"},
      {"vocab", text(s.vocab), "vocabulary size"},
      {"vocab_pad", "1", "the vocabulary is padded to a multiple of this"},
      {"seq", text(s.seq), "sequence length"},
      {"cache", "0",
       "if above 0: one inference step that generates a token after this many cached tokens"},
      {"attention", s.attention,
       "plain (scores, softmax, values), wide (plain with softmax in fp32) or fused"},
  };
  if (s.rms) {
    out.push_back({"norm", "fused", "fused (one operator) or plain (several, in fp32)"});
  }
  out.push_back({"loss", "fused", "fused (one operator) or plain (several, in fp32)"});
  if (s.dropout) {
    out.push_back({"dropout", "false",
                   "dropout on attention probabilities and layer outputs: true or false"});
  }
  if (s.experts > 0) {
    for (auto& h : expert_hyperparameters(s.experts, s.active_experts)) out.push_back(h);
  }
  return out;
}

graph::Graph build_decoder(const Decoder& decoder, const Settings& settings, std::int64_t batch,
                           DType dtype) {
  const auto layer = read_layer_options(decoder, settings);
  const auto cache = layer.attention.cache;
  const auto seq = cache > 0 ? 1 : settings.size("seq");
  const auto vocab = settings.size("vocab");
  graph::GraphBuilder graph(settings.model());
  const Block b(graph, dtype);
  const auto padding = compute_padding(vocab, settings.size("vocab_pad"));
  const auto tokens = b.embedding("tokens", {batch, seq}, vocab, settings.size("hidden"), padding);
  auto x = tokens.rows;
  if (!decoder.rope_base) x = b.add_positions(x, std::max(decoder.context, cache + seq), cache);
  for (std::int64_t i = 0; i < settings.size("layers"); ++i) {
    x = b.scope(fmt::format("l{}", i)).transformer_layer(x, layer);
  }
  x = b.norm(x, layer.norm, "final_norm");
  auto logits = decoder.tied ? b.add(ops::kLinear, {x, tokens.table}, "logits")
                             : b.linear(x, vocab + padding, "logits");
  if (padding > 0) {
    const ops::Slice of_tokens{.axis = 2, .begin = 0, .size = vocab};
    logits = b.add(ops::kSlice, of_tokens, {logits}, "logits_of_tokens");
  }
  if (cache > 0) return finish_decoding(graph, logits);
  return graph.finish({is_plain(settings, "loss") ? b.plain_classification_loss(logits)
                                                  : b.classification_loss(logits)});
}

Decoder make_llama_decoder(double rope_base, double eps) {
  return {.activation = &ops::kSilu,
          .gated = true,
          .norm = {NormKind::kRms, eps},
          .rope_base = rope_base};
}

}  // namespace tandem::models

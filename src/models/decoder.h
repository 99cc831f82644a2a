// Language models that predict the next token: a token embedding, transformer layers with causal
// attention and the norm first, a last norm, and a product with the vocabulary. GPT, LLaMA and
// mixtures of experts differ in what `Decoder` says.
//
// With `cache=N` the network is the step of inference that follows N tokens: one token of every
// sequence, the keys and values of those before it as inputs; its outputs are the logits, and the
// keys and values that the next step gets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/blocks.h"
#include "models/model.h"

namespace tandem::models {

struct Decoder {
  const ops::OpSpec* activation = nullptr;
  bool gated = false;
  bool bias = false;
  NormOptions norm;
  std::optional<double> rope_base = {};  // else learned positions
  std::int64_t context = 0;  // rows of the learned positions, or more for a longer sequence
  bool tied = false;         // the head multiplies with the token embedding's table
};

struct DecoderSizes {
  std::int64_t layers, hidden, heads, kv_heads, ffn, vocab, seq;
  std::string attention;  // "plain" or "fused"
  std::int64_t experts = 0;
  std::int64_t active_experts = 0;
  bool dropout = false;  // may it be asked for?
  bool rms = false;      // are norms of that kind?
};

// "layers", "hidden", ... with these defaults.
std::vector<Hyperparameter> decoder_hyperparameters(const DecoderSizes& sizes);

graph::Graph build_decoder(const Decoder& decoder, const Settings& settings, std::int64_t batch,
                           DType dtype);

// LLaMA's: rotary positions, RMS norms, SwiGLU, no biases, a head of its own.
Decoder llama_decoder(double rope_base, double eps);

}  // namespace tandem::models

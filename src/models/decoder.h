// Language models that predict the next token: a token embedding, transformer layers with causal
// attention and the norm first, a last norm, and an LM head. `Decoder` holds the differences
// between GPT, LLaMA and mixtures of experts.
//
// With `cache=N` the network is the inference step that follows N tokens. It reads one token of
// every sequence, and the keys and values of the tokens before it as inputs. Its outputs are the
// logits, and the keys and values for the next step.
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
  std::optional<double> rope_base = {};  // nullopt: learned positions
  std::int64_t context = 0;  // rows of the learned positions; more for a longer sequence
  bool tied = false;         // whether the LM head uses the embedding table
};

struct DecoderSizes {
  std::int64_t layers, hidden, heads, kv_heads, ffn, vocab, seq;
  std::string attention;  // "plain" or "fused"
  std::int64_t experts = 0;
  std::int64_t active_experts = 0;
  bool dropout = false;  // whether the user may enable it
  bool rms = false;      // whether norms are RMS norms
};

// Returns "layers", "hidden", ... with these defaults.
std::vector<Hyperparameter> decoder_hyperparameters(const DecoderSizes& sizes);

graph::Graph build_decoder(const Decoder& decoder, const Settings& settings, std::int64_t batch,
                           DType dtype);

// Returns LLaMA's options: rotary positions, RMS norms, SwiGLU, no biases, an untied LM head.
Decoder make_llama_decoder(double rope_base, double eps);

}  // namespace tandem::models

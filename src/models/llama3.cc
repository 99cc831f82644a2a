// Llama 3 (Llama team, 2024, arXiv:2407.21783, table 3): 8B, 70B and 405B, with 8 key and value
// heads, a vocabulary of 128256 in the released models, context 8192 in pre-training and rotary
// positions of base 500,000. The paper gives 16 M tokens a batch for 405B's longest phase at this
// context: 2048 sequences. It gives none for the smaller models, so theirs is one sequence a
// device.
#include "models/decoder.h"

namespace tandem::models {

namespace {

graph::Graph build_llama3(const Settings& settings, std::int64_t batch, DType dtype) {
  return build_decoder(make_llama_decoder(500000, 1e-5), settings, batch, dtype);
}

}  // namespace

const ModelSpec kLlama3_8b = {
    .name = "llama3_8b",
    .doc = "Llama 3 8B (arXiv:2407.21783)",
    .hyperparameters = decoder_hyperparameters({.layers = 32,
                                                .hidden = 4096,
                                                .heads = 32,
                                                .kv_heads = 8,
                                                .ffn = 14336,
                                                .vocab = 128256,
                                                .seq = 8192,
                                                .attention = "fused",
                                                .rms = true}),
    .train_batch = 8,
    .adam = true,
    .build = build_llama3,
};

const ModelSpec kLlama3_70b = {
    .name = "llama3_70b",
    .doc = "Llama 3 70B (arXiv:2407.21783)",
    .hyperparameters = decoder_hyperparameters({.layers = 80,
                                                .hidden = 8192,
                                                .heads = 64,
                                                .kv_heads = 8,
                                                .ffn = 28672,
                                                .vocab = 128256,
                                                .seq = 8192,
                                                .attention = "fused",
                                                .rms = true}),
    .train_batch = 8,
    .adam = true,
    .build = build_llama3,
};

const ModelSpec kLlama3_405b = {
    .name = "llama3_405b",
    .doc = "Llama 3 405B (arXiv:2407.21783)",
    .hyperparameters = decoder_hyperparameters({.layers = 126,
                                                .hidden = 16384,
                                                .heads = 128,
                                                .kv_heads = 8,
                                                .ffn = 53248,
                                                .vocab = 128256,
                                                .seq = 8192,
                                                .attention = "fused",
                                                .rms = true}),
    .batch = 2048,
    .train_batch = 8,
    .adam = true,
    .build = build_llama3,
};

}  // namespace tandem::models

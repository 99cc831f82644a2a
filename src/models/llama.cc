// LLaMA 65B (Touvron et al., 2023, arXiv:2302.13971, table 2): 80 layers of 8192, 64 heads, context
// 2048, 4 M tokens a batch. LLaMA 2 70B (arXiv:2307.09288) is the same with 8 key and value heads
// and context 4096. Batches are MAD-Max's (ISCA'24, table 2). FFN widths and vocabulary are those
// of the released models: 22016 is 2/3 of 4 x 8192 rounded up to a multiple of 256; LLaMA 2 uses
// 1.3 times that. LLaMA 2 7B has 32 layers of 4096 and 4 M tokens a batch (table 1).
#include "models/decoder.h"

namespace tandem::models {

namespace {

graph::Graph build_llama(const Settings& settings, std::int64_t batch, DType dtype) {
  return build_decoder(make_llama_decoder(10000, 1e-5), settings, batch, dtype);
}

}  // namespace

const ModelSpec kLlama_65b = {
    .name = "llama_65b",
    .doc = "LLaMA 65B (arXiv:2302.13971)",
    .hyperparameters = decoder_hyperparameters({.layers = 80,
                                                .hidden = 8192,
                                                .heads = 64,
                                                .kv_heads = 64,
                                                .ffn = 22016,
                                                .vocab = 32000,
                                                .seq = 2048,
                                                .attention = "fused",
                                                .rms = true}),
    .batch = 2048,
    .train_batch = 8,
    .adam = true,
    .build = build_llama,
};

const ModelSpec kLlama2_70b = {
    .name = "llama2_70b",
    .doc = "LLaMA 2 70B, with grouped-query attention (arXiv:2307.09288)",
    .hyperparameters = decoder_hyperparameters({.layers = 80,
                                                .hidden = 8192,
                                                .heads = 64,
                                                .kv_heads = 8,
                                                .ffn = 28672,
                                                .vocab = 32000,
                                                .seq = 4096,
                                                .attention = "fused",
                                                .rms = true}),
    .batch = 2048,
    .train_batch = 8,
    .adam = true,
    .build = build_llama,
};

const ModelSpec kLlama2_7b = {
    .name = "llama2_7b",
    .doc = "LLaMA 2 7B (arXiv:2307.09288)",
    .hyperparameters = decoder_hyperparameters({.layers = 32,
                                                .hidden = 4096,
                                                .heads = 32,
                                                .kv_heads = 32,
                                                .ffn = 11008,
                                                .vocab = 32000,
                                                .seq = 4096,
                                                .attention = "fused",
                                                .rms = true}),
    .batch = 1024,
    .train_batch = 8,
    .adam = true,
    .build = build_llama,
};

}  // namespace tandem::models

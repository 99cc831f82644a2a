// GPT-3 175B (Brown et al., 2020, arXiv:2005.14165, table 2.1): 96 layers of 12288, 96 heads of
// 128, context 2048; vocabulary, tied LM head and activation are GPT-2's. Its alternating sparse
// attention layers are dense here, as in MAD-Max's model of it (ISCA'24, table 2). The batch of
// 2048 sequences (4 M tokens) is also MAD-Max's; the paper's own is 3.2 M tokens.
#include "models/decoder.h"
#include "ops/registry.h"

namespace tandem::models {

const ModelSpec kGpt3_175b = {
    .name = "gpt3_175b",
    .doc = "GPT-3 175B (arXiv:2005.14165), with dense attention",
    .hyperparameters = decoder_hyperparameters({.layers = 96,
                                                .hidden = 12288,
                                                .heads = 96,
                                                .kv_heads = 96,
                                                .ffn = 49152,
                                                .vocab = 50257,
                                                .seq = 2048,
                                                .attention = "plain",
                                                .dropout = true}),
    .batch = 2048,
    .train_batch = 8,
    .adam = true,
    .build =
        [](const Settings& s, std::int64_t batch, DType dtype) {
          return build_decoder({.activation = &ops::kGeluTanh,
                                .bias = true,
                                .norm = {},
                                .context = 2048,
                                .tied = true},
                               s, batch, dtype);
        },
};

}  // namespace tandem::models

// GPT-2 small (Radford et al., 2019, "Language Models are Unsupervised Multitask Learners"): 12
// layers of 768, 12 heads, context 1024, vocabulary 50257, LM head tied to the embedding; GELU in
// its tanh form. The batch is our choice: the paper uses 512 sequences on devices that it does not
// name.
#include "models/decoder.h"
#include "ops/registry.h"

namespace tandem::models {

const ModelSpec kGpt2 = {
    .name = "gpt2",
    .doc = "GPT-2 small, 124M parameters (Radford et al., 2019)",
    .hyperparameters = decoder_hyperparameters({.layers = 12,
                                                .hidden = 768,
                                                .heads = 12,
                                                .kv_heads = 12,
                                                .ffn = 3072,
                                                .vocab = 50257,
                                                .seq = 1024,
                                                .attention = "plain",
                                                .dropout = true}),
    .batch_per_device = 4,
    .train_batch = 4,
    .adam = true,
    .build =
        [](const Settings& s, std::int64_t batch, DType dtype) {
          return build_decoder({.activation = &ops::kGeluTanh,
                                .bias = true,
                                .norm = {},
                                .context = 1024,
                                .tied = true},
                               s, batch, dtype);
        },
};

}  // namespace tandem::models

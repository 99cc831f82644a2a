// Mixtral 8x7B (Jiang et al., 2024, arXiv:2401.04088, table 1): 32 layers of 4096, 32 heads, 8 key
// and value heads, 8 experts of FFN 14336 of which 2 take a token, vocabulary 32000; rotary
// positions of base 1,000,000 as in the released model. The paper's context is 32768; 4096 is the
// default here. It gives no batch, so ours is one sequence a device.
#include "models/decoder.h"

namespace tandem::models {

const ModelSpec kMixtral8x7b = {
    .name = "mixtral_8x7b",
    .doc = "Mixtral 8x7B, a mixture of 8 experts (arXiv:2401.04088)",
    .hyperparameters = decoder_hyperparameters({.layers = 32,
                                                .hidden = 4096,
                                                .heads = 32,
                                                .kv_heads = 8,
                                                .ffn = 14336,
                                                .vocab = 32000,
                                                .seq = 4096,
                                                .attention = "fused",
                                                .experts = 8,
                                                .active_experts = 2,
                                                .rms = true}),
    .train_batch = 8,
    .adam = true,
    .build =
        [](const Settings& s, std::int64_t batch, DType dtype) {
          return build_decoder(make_llama_decoder(1000000, 1e-5), s, batch, dtype);
        },
};

}  // namespace tandem::models

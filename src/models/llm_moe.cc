// LLM-MoE, the 1.8T-parameter mixture of experts of MAD-Max (ISCA'24, table 2): 120 layers of
// 10704, 16 experts of FFN 42816 of which 2 take a token, vocabulary 50257, context 8192. Experts
// have two matrices with GELU between them, which gives the paper's 1.8 T parameters and 550 GFLOP
// per token. Details that the paper omits are GPT-3's (learned positions, layer norms, a tied LM
// head), but without biases. The paper's 96 heads do not divide 10704 = 2^4 x 3 x 223; 48 heads of
// 223 are nearest.
#include "models/decoder.h"
#include "ops/registry.h"

namespace tandem::models {

const ModelSpec kLlmMoe1_8t = {
    .name = "llm_moe_1.8t",
    .doc = "LLM-MoE, 1.8T parameters in 16 experts (MAD-Max, ISCA'24)",
    .hyperparameters = decoder_hyperparameters({.layers = 120,
                                                .hidden = 10704,
                                                .heads = 48,
                                                .kv_heads = 48,
                                                .ffn = 42816,
                                                .vocab = 50257,
                                                .seq = 8192,
                                                .attention = "fused",
                                                .experts = 16,
                                                .active_experts = 2}),
    .batch = 2048,
    .train_batch = 8,
    .adam = true,
    .build =
        [](const Settings& s, std::int64_t batch, DType dtype) {
          return build_decoder(
              {.activation = &ops::kGelu, .norm = {}, .context = 8192, .tied = true}, s, batch,
              dtype);
        },
};

}  // namespace tandem::models

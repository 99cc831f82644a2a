// Attention by libtorch's flash kernel. It takes bf16 tensors on GPUs, and never stores a whole row
// of scores in memory.
#pragma once

#include "runtime/kernels.h"

namespace tandem::runtime {

// Returns whether the flash kernel covers the operands `in` of `call`.
bool has_flash_attention(const Call& call, std::span<const at::Tensor> in);

at::Tensor flash_attention(const Call& call, std::span<const at::Tensor> in);
Gradients flash_attention_gradients(const Call& call, const BackwardInput& b);

}  // namespace tandem::runtime

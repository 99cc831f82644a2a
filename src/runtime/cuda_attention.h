// attention by libtorch's flash kernel, which takes tensors in 16 bits on GPUs and never has a row
// of scores in memory.
#pragma once

#include "runtime/kernels.h"

namespace tandem::runtime {

// Does it cover these operands?
bool has_flash_attention(const Call& call, std::span<const at::Tensor> in);

at::Tensor flash_attention(const Call& call, std::span<const at::Tensor> in);
Gradients flash_attention_gradients(const Call& call, const BackwardInput& b);

}  // namespace tandem::runtime

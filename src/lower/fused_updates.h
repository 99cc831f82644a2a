// A pass that fuses plain SGD updates into the backward pass. If a weight's gradient is one matmul,
// the kernel subtracts it from the weight during that matmul. The gradient is never in memory, and
// is neither written nor read.
//
// This requires that nothing else reads the gradient, and that nothing reads the weight after that
// matmul.
//
// Example: an fp32 weight w of [4096, 4096].
//   %w' = matmul(%y'^T, %x), update w by %w'     %w' takes 64 MiB
//   w -= rate * matmul(%y'^T, %x)                %w' takes none
#pragma once

#include "lower/program.h"

namespace tandem::lower {

// Returns whether `optimizer` may subtract a gradient directly from a weight of type `weight`. It
// may not for bf16 and fp16 weights, because their gradients may be summed in fp32 and update the
// fp32 master weights.
bool may_subtract(plan::Optimizer optimizer, DType weight);

// Marks the gradients that are never stored (Buffer::fused_update), if the machine's software fuses
// such updates.
void fuse_updates(Program& program);

}  // namespace tandem::lower

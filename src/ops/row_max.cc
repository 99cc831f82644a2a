// The maximum over the last dimension that softmax and cross entropy subtract before exp. The
// backward pass treats it as a constant, so each device may take the maximum of its part.
#include "ops/registry.h"

namespace tandem::ops {

const OpSpec kRowMax = define_op<NoAttributes>({
    .name = "row_max",
    .doc = "out[...] = max_v x[...,v]; constant in the backward pass",
    .index = "... v -> ...",
    .kernel = "row_max",
    .meaning = [](const auto&,
                  std::span<const Shape>) { return term::max_over("v", term::input(0)); },
});

}  // namespace tandem::ops

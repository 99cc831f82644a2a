// Softmax over the last dimension, shifted by its maximum so that exp stays in range.
#include "ops/registry.h"

namespace tandem::ops {

const OpSpec kSoftmax = define_op<NoAttributes>({
    .name = "softmax",
    .doc = "out[...,c] = exp(x[...,c]) / sum_c exp(x[...,c])",
    .index = "... !c -> ... !c",
    .kernel = "softmax",
    .onnx = {"Softmax"},
    .meaning =
        [](const auto&, std::span<const Shape>) {
          const auto e = term::exp(term::input(0) - term::max_over("c", term::input(0)));
          return e / term::sum("c", e);
        },
});

}  // namespace tandem::ops

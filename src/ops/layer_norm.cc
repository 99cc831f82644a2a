// Normalisation over the last dimension, then scale and shift.
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::ops {

const OpSpec kLayerNorm = define_op<Norm>({
    .name = "layer_norm",
    .doc = "out[...,h] = (x - mean_h x) / sqrt(variance_h x + eps) * scale[h] + shift[h]",
    .index = "... !h, h, h -> ... !h",
    .kernel = "layer_norm",
    .onnx = {"LayerNormalization"},
    .meaning =
        [](const Norm& a, std::span<const Shape>) {
          const auto x = term::input(0);
          const auto centred = x - term::sum("h", x) / term::extent("h");
          const auto variance = term::sum("h", centred * centred) / term::extent("h");
          const auto normal = centred / term::sqrt(variance + term::constant(a.eps));
          return normal * term::input(1) + term::input(2);
        },
});

}  // namespace tandem::ops

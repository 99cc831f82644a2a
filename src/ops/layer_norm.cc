// Normalisation over the last dimension, then scale and shift.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

std::string index_text(const Norm& a, std::span<const Shape> in) {
  check_inputs(in, 2, 3);
  check_eps(a.eps);
  return in.size() == 2 ? "... !h, h -> ... !h" : "... !h, h, h -> ... !h";
}

}  // namespace

const OpSpec kLayerNorm = define_op<Norm>({
    .name = "layer_norm",
    .doc = "out[...,h] = (x - mean_h x) / sqrt(variance_h x + eps) * scale[h] + shift[h]; the "
           "shift is optional",
    .index = "... !h, h, h -> ... !h",
    .kernel = "layer_norm",
    .onnx = {"LayerNormalization"},
    .index_text = index_text,
    .meaning =
        [](const Norm& a, std::span<const Shape> in) {
          const auto x = term::input(0);
          const auto centred = x - term::sum("h", x) / term::extent("h");
          const auto variance = term::sum("h", centred * centred) / term::extent("h");
          const auto normal = centred / term::sqrt(variance + term::constant(a.eps));
          const auto scaled = normal * term::input(1);
          return in.size() == 2 ? scaled : scaled + term::input(2);
        },
});

}  // namespace tandem::ops

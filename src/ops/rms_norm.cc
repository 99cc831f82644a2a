// Normalisation by the root of the mean square over the last dimension, then scale.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

const OpSpec kRmsNorm = define_op<Norm>({
    .name = "rms_norm",
    .doc = "out[...,h] = x / sqrt(mean_h x^2 + eps) * scale[h]",
    .index = "... !h, h -> ... !h",
    .kernel = "rms_norm",
    .onnx = {"RMSNormalization"},
    .index_text = [](const Norm& a, std::span<const Shape>) -> std::string {
      check_eps(a.eps);
      return "... !h, h -> ... !h";
    },
    .meaning =
        [](const Norm& a, std::span<const Shape>) {
          const auto x = term::input(0);
          const auto mean = term::sum("h", x * x) / term::extent("h");
          return x / term::sqrt(mean + term::constant(a.eps)) * term::input(1);
        },
});

}  // namespace tandem::ops

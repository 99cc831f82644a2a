// Dropout. The dropped elements depend only on seed, step, origin and global index, so every plan
// drops the same ones.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

const OpSpec kDropout = define_op<Dropout>({
    .name = "dropout",
    .doc = "out = x / (1 - p) with probability 1 - p, else 0, elementwise",
    .index = "... -> ...",
    .kernel = "dropout",
    .onnx = {"Dropout"},
    .saves_mask = true,
    .index_text = [](const Dropout& a, std::span<const Shape>) -> std::string {
      if (!(a.p >= 0 && a.p < 1)) reject(fmt::format("p is {}, but must be in [0, 1)", a.p));
      return "... -> ...";
    },
    .meaning =
        [](const Dropout& a, std::span<const Shape>) {
          const auto mask = term::keep(1 - a.p, a.origin, "...");
          return term::constant(1 / (1 - a.p)) * (mask * term::input(0));
        },
});

}  // namespace tandem::ops

// Selection of one element of each row by an index.
#include "ops/registry.h"

namespace tandem::ops {

const OpSpec kPick = define_op<NoAttributes>({
    .name = "pick",
    .doc = "out[...] = x[..., index[...]]",
    .index = "... v, ... -> ...",
    .kernel = "pick",
    .index_inputs = 0b10,
    .meaning =
        [](const auto&, std::span<const Shape>) {
          const auto hit = term::equal(term::input(1), term::index_along("v"));
          return term::sum("v", hit * term::input(0));
        },
    // The kernel reads one element of each row.
    .flops = [](const auto&,
                std::span<const Shape> in) { return Flops{static_cast<double>(in[1].count())}; },
    .bytes =
        [](const auto&, std::span<const TensorType> in) {
          const auto rows = static_cast<double>(in[1].shape.shard_shape().count());
          return in[1].shard_bytes() + 2 * rows * get_element_size(in[0].dtype);
        },
});

}  // namespace tandem::ops

// Embedding lookup: one table row for each index. A device that holds only some rows looks those up
// and leaves a partial sum; the kernel knows the row offset.
#include "ops/registry.h"

namespace tandem::ops {

namespace {

double count_looked_up_elements(std::int64_t indices, const Shape& table) {
  return static_cast<double>(indices) * static_cast<double>(table[1]);
}

}  // namespace

const OpSpec kEmbedding = define_op<NoAttributes>({
    .name = "embedding",
    .doc = "out[...,d] = w[index[...], d]",
    .index = "..., v d -> ... d",
    .kernel = "embedding",
    .onnx = {"Gather"},
    .index_inputs = 0b01,
    .row_sparse_operand = 1,
    .pace = Pace::kLookup,
    .meaning =
        [](const auto&, std::span<const Shape>) {
          const auto hit = term::equal(term::input(0), term::index_along("v"));
          return term::sum("v", hit * term::input(1));
        },
    // The kernel reads and writes only the rows that the indices name.
    .flops =
        [](const auto&, std::span<const Shape> in) {
          return Flops{count_looked_up_elements(in[0].count(), in[1])};
        },
    .bytes =
        [](const auto&, std::span<const TensorType> in) {
          const auto rows = count_looked_up_elements(in[0].shape.shard_shape().count(),
                                                     in[1].shape.shard_shape());
          return in[0].shard_bytes() + 2 * rows * get_element_size(in[1].dtype);
        },
});

}  // namespace tandem::ops

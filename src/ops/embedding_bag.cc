// Embedding lookup: the sum of the rows a bag of indices names. A device that holds only some rows
// adds up those and leaves a partial sum; the row offset is known to the kernel.
#include "ops/registry.h"

namespace tandem::ops {

namespace {

// What is really read: one row per index, and the indices.
double looked_up(std::span<const Shape> in) {
  return static_cast<double>(in[0].count()) * static_cast<double>(in[1][in[1].rank() - 1]);
}

}  // namespace

const OpSpec kEmbeddingBag = define_op<NoAttributes>({
    .name = "embedding_bag",
    .doc = "out[...,d] = sum_l w[index[...,l], d]",
    .index = "... l, v d -> ... d",
    .kernel = "embedding_bag",
    .index_inputs = 0b01,
    .row_sparse_operand = 1,
    .meaning =
        [](const auto&, std::span<const Shape>) {
          const auto hit = term::equal(term::input(0), term::index_of("v"));
          return term::sum("l v", hit * term::input(1));
        },
    .flops = [](const auto&, std::span<const Shape> in) { return Flops{looked_up(in)}; },
    .bytes =
        [](const auto&, std::span<const TensorType> in) {
          const Shape indices = in[0].shape.shard();
          const Shape table = in[1].shape.shard();
          const double bags = static_cast<double>(indices.count()) /
                              static_cast<double>(indices[indices.rank() - 1]);
          const double width = static_cast<double>(table[table.rank() - 1]);
          return static_cast<double>(indices.count()) * size_of(in[0].dtype) +
                 (static_cast<double>(indices.count()) + bags) * width * size_of(in[1].dtype);
        },
});

}  // namespace tandem::ops

// Embedding lookup with pooling: the sum or the mean of the rows that a bag of indices names. There
// is one table (embedding_bag), or one of several equal tables for each bag (add_embedding_bags). A
// device that holds only some rows sums those and leaves a partial sum; the kernel knows the row
// offset.
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

// Returns the number of table elements that the lookup reads, one row per index.
double count_elements_read(const Shape& indices, const Shape& table) {
  return static_cast<double>(indices.count()) * static_cast<double>(table[table.rank() - 1]);
}

Term bag_meaning(const EmbeddingBag& a, std::span<const Shape>) {
  const auto hit = term::equal(term::input(0), term::index_along("v"));
  const auto total = term::sum("l v", hit * term::input(1));
  return a.mode == BagMode::kMean ? total / term::extent("l") : total;
}

Flops bag_flops(const EmbeddingBag&, std::span<const Shape> in) {
  return Flops{count_elements_read(in[0], in[1])};
}

// Returns the bytes of the indices, the rows they name, and the result.
Bytes bag_bytes(const EmbeddingBag&, std::span<const TensorType> in) {
  const Shape indices = in[0].shape.shard_shape();
  const double read = count_elements_read(indices, in[1].shape.shard_shape());
  const double written = read / static_cast<double>(indices[indices.rank() - 1]);
  return static_cast<double>(indices.count()) * get_element_size(in[0].dtype) +
         (read + written) * get_element_size(in[1].dtype);
}

OpSpec define_bag(const std::string& name, const std::string& formula, const std::string& index) {
  return define_op<EmbeddingBag>({
      .name = name,
      .doc = formula + "; mode=mean divides by the number of l",
      .index = index,
      .kernel = name,
      .index_inputs = 0b01,
      .row_sparse_operand = 1,
      .pace = Pace::kLookup,
      .meaning = bag_meaning,
      .flops = bag_flops,
      .bytes = bag_bytes,
  });
}

}  // namespace

const OpSpec kEmbeddingBag =
    define_bag("embedding_bag", "out[...,d] = sum_l w[index[...,l], d]", "... l, v d -> ... d");
const OpSpec kEmbeddingBags = define_bag(
    "embedding_bags", "out[b,t,d] = sum_l w[t, index[b,t,l], d]", "b t l, t v d -> b t d");

}  // namespace tandem::ops

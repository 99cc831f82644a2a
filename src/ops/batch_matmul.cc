// A matmul for every element of a batch.
#include "ops/registry.h"

namespace tandem::ops {

const OpSpec kBatchMatMul = define_op<NoAttributes>({
    .name = "batch_matmul",
    .doc = "out[b,m,n] = sum_k lhs[b,m,k] * rhs[b,k,n]",
    .index = "b m k, b k n -> b m n",
    .kernel = "matmul",
    .meaning =
        [](const auto&, std::span<const Shape>) {
          return term::sum("k", term::input(0) * term::input(1));
        },
});

}  // namespace tandem::ops

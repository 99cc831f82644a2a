// Matrix product, batched over the leading dimensions.
#include "ops/registry.h"

namespace tandem::ops {

const OpSpec kMatMul = define_op<NoAttributes>({
    .name = "matmul",
    .doc = "out[...,m,n] = sum_k lhs[...,m,k] * rhs[...,k,n]",
    .index = "... m k, ... k n -> ... m n",
    .kernel = "matmul",
    .onnx = {"MatMul"},
    .meaning =
        [](const auto&, std::span<const Shape>) {
          return term::sum("k", term::input(0) * term::input(1));
        },
});

}  // namespace tandem::ops

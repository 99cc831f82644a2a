// Matmul, batched over the leading dimensions, which are broadcast as in binary.cc.
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

Shape get_leading_dims(const Shape& shape) {
  return Shape(std::span(shape.begin(), shape.rank() - 2));
}

std::string matmul_index(const NoAttributes&, std::span<const Shape> in) {
  check_inputs(in, 2, 2);
  for (std::size_t i = 0; i < 2; ++i) check_rank(in, i, 2, Shape::kMaxRank);
  const auto a = get_leading_dims(in[0]);
  const auto b = get_leading_dims(in[1]);
  auto lhs = broadcast_dims(a, b);
  auto rhs = broadcast_dims(b, a);
  auto out = make_dim_names(std::max(a.rank(), b.rank()));
  lhs.insert(lhs.end(), {"m", "k"});
  rhs.insert(rhs.end(), {"k", "n"});
  out.insert(out.end(), {"m", "n"});
  return fmt::format("{}, {} -> {}", join(lhs, " "), join(rhs, " "), join(out, " "));
}

}  // namespace

const OpSpec kMatMul = define_op<NoAttributes>({
    .name = "matmul",
    .doc = "out[...,m,n] = sum_k lhs[...,m,k] * rhs[...,k,n]; leading dimensions of size 1 are "
           "broadcast",
    .index = "... m k, ... k n -> ... m n",
    .kernel = "matmul",
    .onnx = {"MatMul"},
    .index_text = matmul_index,
    .meaning =
        [](const auto&, std::span<const Shape>) {
          return term::sum("k", term::input(0) * term::input(1));
        },
});

}  // namespace tandem::ops

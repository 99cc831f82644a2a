// Softmax along one dimension, shifted by its maximum so that exp stays in range.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

std::string index_text(const Softmax& a, std::span<const Shape> in) {
  check_inputs(in, 1, 1);
  const auto rank = in[0].rank();
  const auto axis = normalize_axis(a.axis, rank);
  if (a.causal) {
    if (rank < 2 || axis + 1 != rank) {
      reject(fmt::format("causal=true does not allow axis {} of a tensor of rank {}", a.axis, rank),
             "the axis must be the last dimension; the one before it holds the rows");
    }
    return "... s !c -> ... s !c";
  }
  if (axis + 1 == rank) return "... !c -> ... !c";
  auto dims = make_dim_names(rank);
  dims[axis] = "!c";
  return fmt::format("{} -> {}", join(dims, " "), join(dims, " "));
}

Term meaning(const Softmax& a, std::span<const Shape>) {
  const auto x = term::input(0);
  if (!a.causal) {
    const auto e = term::exp(x - term::max_over("c", x));
    return e / term::sum("c", e);
  }
  const auto seen = term::less(term::index_along("c"), term::index_along("s") + term::constant(1));
  // The exponent is masked too, because masked elements may exceed the maximum of the others.
  const auto e = seen * term::exp(seen * (x - term::max_over("c", x, seen)));
  return e / term::sum("c", e);
}

}  // namespace

const OpSpec kSoftmax = define_op<Softmax>({
    .name = "softmax",
    .doc = "out[...,c] = exp(x[...,c]) / sum_c exp(x[...,c]); causal=true: over c <= s only, 0 "
           "elsewhere",
    .index = "... !c -> ... !c",
    .kernel = "softmax",
    .onnx = {"Softmax"},
    .index_text = index_text,
    .meaning = meaning,
    .gradient_from_result =
        [] {
          const auto y = term::input(0);
          const auto gradient = term::input(1);
          return y * (gradient + term::constant(-1) * term::sum("c", gradient * y));
        },
});

}  // namespace tandem::ops

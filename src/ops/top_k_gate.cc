// Selection of the experts of each token and their weights. An expert's rank is the number of
// experts before it: those with a larger score, and those with an equal score and a lower index.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

std::string index_text(const TopK& a, std::span<const Shape> in) {
  check_inputs(in, 1, 1);
  check_rank(in, 0, 1, Shape::kMaxRank);
  const auto experts = in[0][in[0].rank() - 1];
  check_range("k", a.k, 1, experts);
  return fmt::format("... !e -> ... !e | f:{}", experts);
}

Term meaning(const TopK& a, std::span<const Shape>) {
  const auto x = term::input(0);
  const auto other = term::input_at(0, "... f");
  const auto first = term::less(term::index_along("f"), term::index_along("e"));
  const auto rank = term::sum("f", term::less(x, other) + term::equal(other, x) * first);
  const auto chosen = term::less(rank, term::constant(static_cast<double>(a.k)));
  const auto weight = chosen * term::exp(x - term::max_over("e", x));
  return weight / term::sum("e", weight);
}

}  // namespace

const OpSpec kTopKGate = define_op<TopK>({
    .name = "top_k_gate",
    .doc = "softmax over the `k` largest elements of the last dimension, 0 elsewhere; of equal "
           "elements the first ones count",
    .index = "... !e -> ... !e | f",
    .kernel = "top_k_gate",
    .index_text = index_text,
    .meaning = meaning,
    // The kernel passes over the experts once for each chosen one, and computes a softmax.
    .flops =
        [](const TopK& a, std::span<const Shape> in) {
          return Flops{static_cast<double>(in[0].count()) * (static_cast<double>(a.k) + 5)};
        },
});

}  // namespace tandem::ops

// Dot products of all pairs of a sample's vectors, as in DLRM. Pair number i(i-1)/2 + j is (i, j),
// with j < i.
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

std::int64_t count_pairs(std::int64_t vectors) { return vectors * (vectors - 1) / 2; }

std::string interaction_index(const NoAttributes&, std::span<const Shape> in) {
  check_inputs(in, 1, 1);
  check_rank(in, 0, 3, 3);
  const auto n = in[0][1];
  // 2^20 vectors make fewer than 2^40 pairs.
  if (n < 2 || n > std::int64_t{1} << 20U) {
    reject(fmt::format("dim 1 is {}, but must be 2 to 2^20, the number of vectors to pair", n));
  }
  return fmt::format("b !i d -> b p:{} | j:{}", count_pairs(n), n);
}

Term interaction_meaning(const NoAttributes&, std::span<const Shape>) {
  const auto i = term::index_along("i");
  const auto j = term::index_along("j");
  const auto number = i * (i - term::constant(1)) / term::constant(2) + j;
  const auto hit = term::equal(number, term::index_along("p")) * term::less(j, i);
  return term::sum("i j d", hit * term::input(0) * term::input_at(0, "b j d"));
}

}  // namespace

const OpSpec kInteraction = define_op<NoAttributes>({
    .name = "interaction",
    .doc = "out[b,p] = sum_d x[b,i,d] * x[b,j,d] for pair p = (i, j): (1,0) (2,0) (2,1) (3,0) ...",
    .index = "b !i d -> b p | j",
    .kernel = "interaction",
    .index_text = interaction_index,
    .meaning = interaction_meaning,
    .flops =
        [](const auto&, std::span<const Shape> in) {
          return Flops{2 * static_cast<double>(in[0][0]) *
                       static_cast<double>(count_pairs(in[0][1])) * static_cast<double>(in[0][2])};
        },
});

}  // namespace tandem::ops

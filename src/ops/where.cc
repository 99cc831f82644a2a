// An elementwise choice between two tensors by numbers that are 1 or 0. Shapes are broadcast as in
// binary.cc. A number between 0 and 1 mixes both, so that the operator is linear in each operand.
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

// Returns the broadcast shape of the other two operands. If they do not fit, resolve_index reports
// it.
Shape broadcast_shapes(const Shape& a, const Shape& b) {
  Shape out = a.rank() < b.rank() ? b : a;
  const Shape& shorter = a.rank() < b.rank() ? a : b;
  for (std::size_t d = 0; d < shorter.rank(); ++d) {
    auto& size = out[out.rank() - 1 - d];
    if (size == 1) size = shorter[shorter.rank() - 1 - d];
  }
  return out;
}

std::string index_text(const NoAttributes&, std::span<const Shape> in) {
  check_inputs(in, 3, 3);
  Names sides;
  std::size_t rank = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto others = broadcast_shapes(in[(i + 1) % 3], in[(i + 2) % 3]);
    sides.push_back(join(broadcast_dims(in[i], others), " "));
    rank = std::max(rank, in[i].rank());
  }
  return fmt::format("{} -> {}", join(sides, ", "), join(make_dim_names(rank), " "));
}

}  // namespace

const OpSpec kWhere = define_op<NoAttributes>({
    .name = "where",
    .doc = "out = c * a + (1 - c) * b of the operands c, a, b: a where c is 1, b where c is 0; "
           "dimensions of size 1 are broadcast",
    .index = "..., ..., ... -> ...",
    .kernel = "where",
    .index_text = index_text,
    .meaning =
        [](const auto&, std::span<const Shape>) {
          const auto c = term::input(0);
          return c * term::input(1) + (term::constant(1) - c) * term::input(2);
        },
});

}  // namespace tandem::ops

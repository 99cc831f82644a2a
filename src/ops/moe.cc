// A dense mixture of experts without dropped tokens. moe_dispatch gives every expert the tokens
// that its gate selects, and zeros for the others. moe_combine sums the experts' results, weighted
// by the gates. The zeros are not stored (TensorType::density); the planner and the kernels rely on
// that.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

// Returns the factors of the tokens, for a tensor with one more dimension.
std::string format_token_dims(const Shape& shape) { return shape.rank() == 2 ? "b" : "b s"; }

std::string dispatch_index(const Dispatch& a, std::span<const Shape> in) {
  check_inputs(in, 2, 2);
  check_rank(in, 0, 2, 3);
  if (!(a.density > 0 && a.density <= 1)) {
    reject(fmt::format("density is {}, but must be more than 0 and at most 1", a.density));
  }
  const auto tokens = format_token_dims(in[0]);
  return fmt::format("{} i, {} e -> e {} i", tokens, tokens, tokens);
}

std::string combine_index(const NoAttributes&, std::span<const Shape> in) {
  check_inputs(in, 2, 2);
  check_rank(in, 0, 2, 3);
  const auto tokens = format_token_dims(in[0]);
  return fmt::format("{} e, e {} o -> {} o", tokens, tokens, tokens);
}

}  // namespace

const OpSpec kMoeDispatch = define_op<Dispatch>({
    .name = "moe_dispatch",
    .doc = "out[e,b,i] = x[b,i] where gate[b,e] is not 0; each expert gets the fraction `density` "
           "of the tokens",
    .index = "b i, b e -> e b i",
    .kernel = "moe_dispatch",
    .index_text = dispatch_index,
    .meaning =
        [](const auto&, std::span<const Shape>) {
          const auto closed = term::equal(term::input(1), term::constant(0));
          return (term::constant(1) - closed) * term::input(0);
        },
    .density = [](const Dispatch& a) { return a.density; },
    // The kernel copies only the tokens that an expert gets.
    .flops =
        [](const Dispatch& a, std::span<const Shape> in) {
          const auto experts = static_cast<double>(in[1][in[1].rank() - 1]);
          return Flops{a.density * experts * static_cast<double>(in[0].count())};
        },
});

const OpSpec kMoeCombine = define_op<NoAttributes>({
    .name = "moe_combine",
    .doc = "out[b,o] = sum_e gate[b,e] * y[e,b,o]",
    .index = "b e, e b o -> b o",
    .kernel = "moe_combine",
    .index_text = combine_index,
    .meaning =
        [](const auto&, std::span<const Shape>) {
          return term::sum("e", term::input(0) * term::input(1));
        },
    .density = [](const auto&) { return 1.0; },
});

}  // namespace tandem::ops

// The second step of a batch normalisation whose groups are partitioned. It applies the moments
// that batch_moments computed.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

std::string batch_normalize_index(const Norm& a, std::span<const Shape> in) {
  check_inputs(in, 4, 4);
  check_eps(a.eps);
  check_rank(in, 0, 2, 5);
  check_rank(in, 1, 3, 3);
  if (in[1][2] != 2) {
    reject(fmt::format("the last dimension of input 1 is {}, but must be 2", in[1][2]),
           "input 1 must be the result of batch_moments");
  }
  if (in[0][0] % in[1][0] != 0) {
    reject(fmt::format("input 1 has {} groups, which does not divide the batch of {}", in[1][0],
                       in[0][0]));
  }
  std::string space;
  for (const auto& name : make_space_names(in[0].rank() - 2)) space += " " + name;
  return fmt::format("(n g) c{}, n c !m, c, c -> (n g) c{}", space, space);
}

}  // namespace

const OpSpec kBatchNormalize = define_op<Norm>({
    .name = "batch_normalize",
    .doc =
        "out[n,c,...] = (x - mean) / sqrt(mean of squares - mean^2 + eps) * scale[c] + shift[c], "
        "with the moments [groups, c, 2] in input 1",
    .index = "(n g) c h w, n c !m, c, c -> (n g) c h w",
    .kernel = "batch_normalize",
    .index_text = batch_normalize_index,
    .meaning =
        [](const Norm& a, std::span<const Shape>) {
          const auto mean = term::input_at(1, "n c 0");
          const auto variance = term::input_at(1, "n c 1") - mean * mean;
          const auto normal =
              (term::input(0) - mean) / term::sqrt(variance + term::constant(a.eps));
          return normal * term::input(2) + term::input(3);
        },
});

}  // namespace tandem::ops

// Scaled dot product attention in one kernel, which never stores the scores. Several heads of q may
// share one head of k and v: head (kv g) of q reads head kv.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

std::string index_text(const Attention& a, std::span<const Shape> in) {
  check_inputs(in, 3, 3);
  for (std::size_t i = 0; i < 3; ++i) check_rank(in, i, 4, 4);
  check_finite("scale", a.scale);
  if (in[0][1] % in[1][1] != 0) {
    reject(fmt::format("input 0 has {} heads, which is not a multiple of {} in input 1", in[0][1],
                       in[1][1]));
  }
  return "b (kv g) s d, b kv !t d, b kv !t e -> b (kv g) s e";
}

Term meaning(const Attention& a, std::span<const Shape>) {
  const auto dot = term::sum("d", term::input(0) * term::input(1));
  const auto scores = a.scale == 1 ? dot : term::constant(a.scale) * dot;
  if (!a.causal) {
    const auto e = term::exp(scores - term::max_over("t", scores));
    return term::sum("t", e / term::sum("t", e) * term::input(2));
  }
  const auto seen = term::less(term::index_along("t"), term::index_along("s") + term::constant(1));
  const auto e = seen * term::exp(seen * (scores - term::max_over("t", scores, seen)));
  return term::sum("t", e / term::sum("t", e) * term::input(2));
}

// Returns the work of two matmuls and, for every score, its scale, difference, exp, sum and
// quotient. A causal kernel skips the masked blocks, which are half of all.
Flops flops(const Attention& a, std::span<const Shape> in) {
  const auto size = [&](std::size_t i, std::size_t d) { return static_cast<double>(in[i][d]); };
  const double scores = size(0, 0) * size(0, 1) * size(0, 2) * size(1, 2);
  const double all = scores * (2 * (size(0, 3) + size(2, 3)) + 5);
  return Flops{a.causal ? all / 2 : all};
}

Bytes bytes(const Attention&, std::span<const TensorType> in) {
  const auto q = in[0].shape.shard_shape();
  const auto v = in[2].shape.shard_shape();
  const double result = static_cast<double>(q[0] * q[1] * q[2]) * static_cast<double>(v[3]);
  return in[0].shard_bytes() + in[1].shard_bytes() + in[2].shard_bytes() +
         result * get_element_size(in[0].dtype);
}

}  // namespace

const OpSpec kAttention = define_op<Attention>({
    .name = "attention",
    .doc = "out[b,h,s,e] = sum_t softmax_t(scale * sum_d q[b,h,s,d] * k[b,h/g,t,d]) * "
           "v[b,h/g,t,e]; causal=true: over t <= s only",
    .index = "b (kv g) s d, b kv !t d, b kv !t e -> b (kv g) s e",
    .kernel = "attention",
    .onnx = {"Attention"},
    .pace = Pace::kAttention,
    .backward_recompute = 0.5,  // the scores, one of five matmuls (arXiv:2307.08691, section 3)
    .index_text = index_text,
    .meaning = meaning,
    .flops = flops,
    .bytes = bytes,
});

}  // namespace tandem::ops

// dropout. Seed, step, origin and global index determine whether an element stays. Every plan
// therefore drops the same elements, and nothing is saved for backward.
#include "base/random.h"
#include "ops/attributes.h"
#include "runtime/aten.h"
#include "runtime/kernels.h"
#include "tensor/dense.h"

namespace tandem::runtime {

namespace {

at::Tensor compute_factors_on_cpu(const Call& call, at::ScalarType type) {
  const auto& a = call.op.get<ops::Dropout>();
  const auto& shard = call.operands[0];
  auto out = at::empty(to_aten(shard.local), type);
  const auto rank = shard.local.rank();
  const auto run = rank == 0 ? 1 : shard.local[rank - 1];
  Shape rows = shard.local;
  if (rank > 0) rows[rank - 1] = 1;
  AT_DISPATCH_FLOATING_TYPES(type, "dropout", [&] {
    auto* to = out.data_ptr<scalar_t>();
    const auto stays = static_cast<scalar_t>(1 / (1 - a.p));
    for_each_index(rows, [&](Shape at) {
      for (std::size_t d = 0; d < rank; ++d) at[d] += shard.offset[d];
      const auto first = compute_flat_index(shard.sizes, at);
      for (std::int64_t i = 0; i < run; ++i) {
        const double drawn =
            draw_uniform(call.draw.seed, call.draw.step, static_cast<std::uint64_t>(a.origin),
                         static_cast<std::uint64_t>(first + i));
        *to++ = drawn < 1 - a.p ? stays : scalar_t(0);
      }
    });
  });
  return out;
}

// Returns 1 / (1 - p) for an element that stays, and 0 otherwise. The CPU draws them on every
// device.
at::Tensor compute_factors(const Call& call, const at::Tensor& like) {
  return compute_factors_on_cpu(call, like.scalar_type()).to(like.device());
}

}  // namespace

const Kernel kDropoutKernel = {"dropout",
                               [](const Call& call, std::span<const at::Tensor> in) {
                                 return compute_factors(call, in[0]).mul_(in[0]);
                               },
                               [](const Call& call, const BackwardInput& b) -> Gradients {
                                 return {compute_factors(call, b.gradient).mul_(b.gradient)};
                               }};

}  // namespace tandem::runtime

// interaction: dot products of all pairs of a sample's vectors. A device may have only some of the
// samples, and only some elements of the vectors.
#include "runtime/aten.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

// Returns the pairs as flat indices into an n x n matrix, in the order (1,0) (2,0) (2,1) ...
// Example: n = 3 -> 3 6 7.
at::Tensor list_pair_indices(std::int64_t n, at::Device device) {
  auto out = at::empty({n * (n - 1) / 2}, at::kLong);
  auto* to = out.data_ptr<std::int64_t>();
  for (std::int64_t i = 1; i < n; ++i) {
    for (std::int64_t j = 0; j < i; ++j) *to++ = i * n + j;
  }
  return out.to(device);
}

at::Tensor interaction_forward(const Call&, std::span<const at::Tensor> in) {
  const auto& x = in[0];
  const auto dots = at::bmm(x, x.transpose(1, 2));
  return dots.view({x.size(0), -1}).index_select(1, list_pair_indices(x.size(1), x.device()));
}

Gradients interaction_backward(const Call&, const BackwardInput& b) {
  const auto& x = b.operands[0];
  const auto n = x.size(1);
  auto g = at::zeros({x.size(0), n * n}, x.options());
  g.index_copy_(1, list_pair_indices(n, x.device()), b.gradient);
  const auto dot_gradient = g.view({-1, n, n});
  return {at::bmm(at::add(dot_gradient, dot_gradient.transpose(1, 2)), x)};
}

// Returns whether the device has all vectors. Otherwise some pairs would span devices.
bool interaction_covers(const Call& call) {
  const auto& shard = call.operands[0];
  return shard.local[1] == shard.sizes[1];
}

}  // namespace

const Kernel kInteractionKernel = {"interaction", interaction_forward, interaction_backward,
                                   [](const ops::Op&) { return false; }, interaction_covers};

}  // namespace tandem::runtime

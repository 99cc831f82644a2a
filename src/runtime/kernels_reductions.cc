// Sums, means and maxima over dimensions, and the operators of a decomposed cross entropy. Means
// are over the elements of all devices.
#include <algorithm>

#include "ops/attributes.h"
#include "ops/registry.h"
#include "runtime/aten.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

// Returns the reduced dimensions in ascending order.
std::vector<std::int64_t> list_reduced_axes(const Call& call) {
  const auto rank = static_cast<std::int64_t>(call.operands[0].sizes.rank());
  std::vector<std::int64_t> out;
  for (auto axis : call.op.get<ops::Reduction>().axes) out.push_back(axis < 0 ? axis + rank : axis);
  std::ranges::sort(out);
  if (!out.empty()) return out;
  for (std::int64_t d = 0; d < rank; ++d) out.push_back(d);
  return out;
}

// Returns 1 for a sum, and 1 / (number of elements averaged) for a mean.
double compute_weight(const Call& call) {
  if (!call.op.is(ops::kReduceMean)) return 1;
  double count = 1;
  for (auto d : list_reduced_axes(call)) {
    count *= static_cast<double>(call.operands[0].sizes[static_cast<std::size_t>(d)]);
  }
  return 1 / count;
}

at::Tensor sum_forward(const Call& call, std::span<const at::Tensor> in) {
  const auto sums =
      at::sum(in[0], list_reduced_axes(call), call.op.get<ops::Reduction>().keep_dims);
  const auto weight = compute_weight(call);
  return weight == 1 ? sums : at::mul(sums, weight);
}

Gradients sum_backward(const Call& call, const BackwardInput& b) {
  auto g = b.gradient;
  if (!call.op.get<ops::Reduction>().keep_dims) {
    for (auto d : list_reduced_axes(call)) g = g.unsqueeze(d);
  }
  const auto weight = compute_weight(call);
  if (weight != 1) g = at::mul(g, weight);
  return {g.expand(to_aten(call.operands[0].local)).contiguous()};
}

// --- Along the last dimension -------------------------------------------------------------------

at::Tensor row_max_forward(const Call&, std::span<const at::Tensor> in) {
  return at::amax(in[0], {-1});
}

// The maximum counts as a constant, so its gradient is zero.
Gradients row_max_backward(const Call& call, const BackwardInput& b) {
  return {at::zeros(to_aten(call.operands[0].local), b.gradient.options())};
}

at::Tensor log_softmax_forward(const Call&, std::span<const at::Tensor> in) {
  return at::_log_softmax(in[0].contiguous(), -1, false);
}

Gradients log_softmax_backward(const Call& call, const BackwardInput& b) {
  const auto result = b.result.defined() ? b.result : log_softmax_forward(call, b.operands);
  return {at::_log_softmax_backward_data(b.gradient.contiguous(), result.contiguous(), -1,
                                         result.scalar_type())};
}

// The picked index of every row, relative to this device's part. Indices in another device's part
// are clamped, and masked by `absent`.
struct Picked {
  at::Tensor at;      // [..., 1]
  at::Tensor absent;  // Same shape; undefined if the rows are whole

  Picked(const Call& call, const at::Tensor& indices) : at(indices.unsqueeze(-1)) {
    const auto& shard = call.operands[0];
    const auto d = shard.local.rank() - 1;
    if (shard.local[d] == shard.sizes[d]) return;
    at = at - shard.offset[d];
    absent = at.lt(0).logical_or(at.ge(shard.local[d]));
    at = at.clamp(0, shard.local[d] - 1);
  }
};

at::Tensor pick_forward(const Call& call, std::span<const at::Tensor> in) {
  const Picked picked(call, in[1]);
  auto out = at::gather(in[0], -1, picked.at);
  if (picked.absent.defined()) out.masked_fill_(picked.absent, 0);
  return out.squeeze(-1);
}

Gradients pick_backward(const Call& call, const BackwardInput& b) {
  const Picked picked(call, b.operands[1]);
  auto g = b.gradient.unsqueeze(-1);
  if (picked.absent.defined()) g = g.masked_fill(picked.absent, 0);
  return {at::zeros(to_aten(call.operands[0].local), g.options()).scatter_(-1, picked.at, g),
          at::Tensor()};
}

}  // namespace

const Kernel kLogSoftmaxKernel = {
    "log_softmax", log_softmax_forward, log_softmax_backward, [](const ops::Op&) { return true; },
    // With an axis attribute, the rows may be along another dimension than the last.
    [](const Call& call) { return call.op.attribute_text().empty(); }};
const Kernel kPickKernel = {"pick", pick_forward, pick_backward};
const Kernel kReduceMeanKernel = {"reduce_mean", sum_forward, sum_backward};
const Kernel kReduceSumKernel = {"reduce_sum", sum_forward, sum_backward};
const Kernel kRowMaxKernel = {"row_max", row_max_forward, row_max_backward};

}  // namespace tandem::runtime

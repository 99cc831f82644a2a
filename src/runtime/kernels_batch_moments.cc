// batch_moments and batch_normalize: batch normalization in two steps, for groups of samples that
// are on several devices. A device divides its sums by the global size of the group, so the moments
// of the devices add up.
#include <algorithm>

#include "ops/attributes.h"
#include "runtime/aten.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

// Reshapes [samples, channels, ...] to [groups, samples per group, channels, elements per image].
at::Tensor group_samples(const at::Tensor& x, std::int64_t groups) {
  return x.reshape({groups, x.size(0) / groups, x.size(1), -1});
}

// Number of samples of a group on this device and on all devices.
struct SampleGroup {
  std::int64_t here, whole;
};

SampleGroup get_group(const Call& call) {
  const auto& shard = call.operands[0];
  const auto stated = call.op.get<ops::BatchNorm>().group;
  const auto whole = stated == 0 ? shard.sizes[0] : stated;
  return {std::min(whole, shard.local[0]), whole};
}

// Returns 1 / (number of elements that a moment averages).
double compute_moment_weight(const Call& call) {
  double count = static_cast<double>(get_group(call).whole);
  const auto& sizes = call.operands[0].sizes;
  for (std::size_t d = 2; d < sizes.rank(); ++d) count *= static_cast<double>(sizes[d]);
  return 1 / count;
}

at::Tensor moments_forward(const Call& call, std::span<const at::Tensor> in) {
  const auto x = group_samples(in[0], in[0].size(0) / get_group(call).here);
  const auto mean = at::sum(x, {1, 3});
  const auto squares = at::sum(at::mul(x, x), {1, 3});
  return at::stack({mean, squares}, -1).mul_(compute_moment_weight(call));
}

Gradients moments_backward(const Call& call, const BackwardInput& b) {
  const auto x = group_samples(b.operands[0], b.operands[0].size(0) / get_group(call).here);
  const auto of_moment = [&](std::int64_t m, double factor) {
    return at::mul(b.gradient.select(-1, m), factor).unsqueeze(1).unsqueeze(-1);
  };
  const auto g = at::mul(x, of_moment(1, 2 * compute_moment_weight(call)))
                     .add_(of_moment(0, compute_moment_weight(call)));
  return {g.view(to_aten(call.operands[0].local))};
}

// --- Normalization -------------------------------------------------------------------------------

// Moments by group and channel, [groups, 1, channels, 1].
struct Moments {
  at::Tensor mean, rate;  // `rate`: 1 / standard deviation

  Moments(const Call& call, const at::Tensor& moments) {
    mean = moments.select(-1, 0).unsqueeze(1).unsqueeze(-1);
    const auto squares = moments.select(-1, 1).unsqueeze(1).unsqueeze(-1);
    const auto variance = at::sub(squares, at::mul(mean, mean));
    rate = variance.add_(call.op.get<ops::Norm>().eps).rsqrt_();
  }
};

at::Tensor reshape_per_channel(const at::Tensor& t) { return t.view({1, 1, -1, 1}); }

at::Tensor normalize_forward(const Call& call, std::span<const at::Tensor> in) {
  const Moments moments(call, in[1]);
  auto out = at::sub(group_samples(in[0], in[1].size(0)), moments.mean);
  out.mul_(at::mul(moments.rate, reshape_per_channel(in[2]))).add_(reshape_per_channel(in[3]));
  return out.view(in[0].sizes());
}

// The gradient of the variance uses d rate / d variance = -rate^3 / 2.
Gradients normalize_backward(const Call& call, const BackwardInput& b) {
  const auto g = group_samples(b.gradient, call.operands[1].local[0]);
  Gradients out(4);
  if (b.wants(3)) out[3] = at::sum(g, {0, 1, 3});
  if (!b.wants(0) && !b.wants(1) && !b.wants(2)) return out;
  const Moments moments(call, b.operands[1]);
  const auto needs_x = b.wants(1) || b.wants(2);
  const auto centred =
      needs_x ? at::sub(group_samples(b.operands[0], g.size(0)), moments.mean) : at::Tensor();
  if (b.wants(2)) {
    out[2] = at::sum(at::mul(at::mul(g, centred), moments.rate), {0, 1, 3});
  }
  if (!b.wants(0) && !b.wants(1)) return out;
  const auto scaled = at::mul(g, reshape_per_channel(b.operands[2]));
  if (b.wants(0)) {
    out[0] = at::mul(scaled, moments.rate).view(to_aten(call.operands[0].local));
  }
  if (b.wants(1)) {
    const auto sum = [](const at::Tensor& t) { return at::sum(t, {1, 3}, true); };
    const auto cube = at::mul(moments.rate, at::mul(moments.rate, moments.rate));
    const auto of_variance = sum(at::mul(scaled, centred)).mul_(cube).mul_(-0.5);
    const auto of_mean =
        sum(scaled).mul_(moments.rate).neg_().sub_(at::mul(of_variance, at::mul(moments.mean, 2)));
    out[1] = at::stack({of_mean, of_variance}, -1).view(to_aten(call.operands[1].local));
  }
  return out;
}

}  // namespace

const Kernel kBatchMomentsKernel = {"batch_moments", moments_forward, moments_backward};
const Kernel kBatchNormalizeKernel = {"batch_normalize", normalize_forward, normalize_backward};

}  // namespace tandem::runtime

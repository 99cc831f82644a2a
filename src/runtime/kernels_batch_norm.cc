// batch_norm: every group of samples by itself. A device has whole groups, and some channels.
#include "ops/attributes.h"
#include "runtime/aten.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

// The groups here: views of `t`, or `t` itself where it is one.
std::vector<at::Tensor> in_groups(const Call& call, const at::Tensor& t) {
  const auto group = call.op.get<ops::BatchNorm>().group;
  const auto size = group == 0 ? call.operands[0].sizes[0] : group;
  return t.size(0) == size ? std::vector{t} : at::split(t, size, 0);
}

at::Tensor joined(std::vector<at::Tensor> groups) {
  return groups.size() == 1 ? std::move(groups[0]) : at::cat(groups, 0);
}

double eps_of(const Call& call) { return call.op.get<ops::BatchNorm>().eps; }

at::Tensor batch_norm_forward(const Call& call, std::span<const at::Tensor> in) {
  auto groups = in_groups(call, in[0]);
  std::vector<at::Tensor> statistics;  // of each group its mean and 1 / its deviation
  for (auto& x : groups) {
    auto [out, mean, inverse] =
        at::native_batch_norm(x, in[1], in[2], {}, {}, true, 0, eps_of(call));
    x = out;
    statistics.push_back(mean);
    statistics.push_back(inverse);
  }
  call.keep(std::move(statistics));
  return joined(std::move(groups));
}

at::Tensor shift_gradient(const at::Tensor& g) {
  std::vector<std::int64_t> over = {0};
  for (std::int64_t d = 2; d < g.dim(); ++d) over.push_back(d);
  return at::sum(g, over);
}

Gradients batch_norm_backward(const Call& call, const BackwardInput& b) {
  if (!b.wants(0) && !b.wants(1)) return {{}, {}, shift_gradient(b.gradient)};
  // Where only its gradient is wanted, the scale is not kept, and its value is not looked at.
  const auto scale = b.operands[1].defined()
                         ? b.operands[1]
                         : at::ones(to_aten(call.operands[1].local), b.operands[0].options());
  const auto groups = in_groups(call, b.operands[0]);
  const auto gradients = in_groups(call, b.gradient);
  std::vector<at::Tensor> images;
  Gradients out(3);
  const auto add = [&](std::size_t i, const at::Tensor& more) {
    if (b.wants(i)) out[i] = out[i].defined() ? out[i].add_(more) : more;
  };
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto& x = groups[i];
    at::Tensor mean, inverse_deviation;
    if (call.has_kept()) {
      mean = call.kept->at(2 * i);
      inverse_deviation = call.kept->at(2 * i + 1);
    } else {
      std::tie(mean, inverse_deviation) = at::batch_norm_update_stats(x, {}, {}, 0);
      inverse_deviation.add_(eps_of(call)).rsqrt_();
    }
    const auto [gx, gscale, gshift] = at::native_batch_norm_backward(
        gradients[i].contiguous(x.suggest_memory_format()), x, scale, {}, {}, mean,
        inverse_deviation, true, eps_of(call), {b.wants(0), b.wants(1), b.wants(2)});
    if (b.wants(0)) images.push_back(gx);
    add(1, gscale);
    add(2, gshift);
  }
  if (b.wants(0)) out[0] = joined(std::move(images));
  return out;
}

}  // namespace

const Kernel kBatchNormKernel = {"batch_norm", batch_norm_forward, batch_norm_backward};

}  // namespace tandem::runtime

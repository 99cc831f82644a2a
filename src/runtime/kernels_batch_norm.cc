// batch_norm: normalizes each group of samples by itself. A device has whole groups, and maybe only
// some channels.
#include "ops/attributes.h"
#include "runtime/aten.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

// Returns the groups on this device: views of `t`, or `t` itself if it is one group.
std::vector<at::Tensor> split_groups(const Call& call, const at::Tensor& t) {
  const auto group = call.op.get<ops::BatchNorm>().group;
  const auto size = group == 0 ? call.operands[0].sizes[0] : group;
  return t.size(0) == size ? std::vector{t} : at::split(t, size, 0);
}

at::Tensor join_groups(std::vector<at::Tensor> groups) {
  return groups.size() == 1 ? std::move(groups[0]) : at::cat(groups, 0);
}

double get_eps(const Call& call) { return call.op.get<ops::BatchNorm>().eps; }

// Tensors that backward needs of one group. `chosen` is the kernel that ATen chose: cuDNN's on a
// GPU if it covers the call.
struct Statistics {
  at::Tensor mean, inverse_deviation, reserve;
  std::int64_t chosen = 0;
};

// Number of tensors that are saved for backward per group.
constexpr std::size_t kSavedPerGroup = 4;

Statistics get_saved_statistics(const std::vector<at::Tensor>& saved, std::size_t group) {
  const auto* t = &saved[kSavedPerGroup * group];
  return {t[0], t[1], t[2], t[3].item<std::int64_t>()};
}

Statistics compute_statistics(const at::Tensor& x, double eps) {
  const auto [mean, variance] = at::batch_norm_update_stats(x, {}, {}, 0);
  return {mean, variance.add(eps).rsqrt_(), at::empty({0}, x.options().dtype(at::kByte))};
}

at::Tensor batch_norm_forward(const Call& call, std::span<const at::Tensor> in) {
  auto groups = split_groups(call, in[0]);
  std::vector<at::Tensor> saved;
  for (auto& x : groups) {
    auto [out, mean, inverse, reserve, chosen] =
        at::_batch_norm_impl_index(x, in[1], in[2], {}, {}, true, 0, get_eps(call), true);
    x = out;
    saved.insert(saved.end(), {mean, inverse, reserve, at::scalar_tensor(chosen, at::kLong)});
  }
  call.save(std::move(saved));
  return join_groups(std::move(groups));
}

at::Tensor compute_shift_gradient(const at::Tensor& g) {
  std::vector<std::int64_t> over = {0};
  for (std::int64_t d = 2; d < g.dim(); ++d) over.push_back(d);
  return at::sum(g, over);
}

Gradients batch_norm_backward(const Call& call, const BackwardInput& b) {
  if (!b.wants(0) && !b.wants(1)) return {{}, {}, compute_shift_gradient(b.gradient)};
  // The scale is undefined if only its gradient is wanted. Its value then does not matter.
  const auto scale = b.operands[1].defined()
                         ? b.operands[1]
                         : at::ones(to_aten(call.operands[1].local), b.operands[0].options());
  const auto groups = split_groups(call, b.operands[0]);
  const auto gradients = split_groups(call, b.gradient);
  std::vector<at::Tensor> images;
  Gradients out(3);
  const auto add = [&](std::size_t i, const at::Tensor& more) {
    if (b.wants(i)) out[i] = out[i].defined() ? out[i].add_(more) : more;
  };
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto& x = groups[i];
    const auto s = call.has_saved() ? get_saved_statistics(*call.saved, i)
                                    : compute_statistics(x, get_eps(call));
    const auto [gx, gscale, gshift] = at::_batch_norm_impl_index_backward(
        s.chosen, x, gradients[i].contiguous(x.suggest_memory_format()), scale, {}, {}, s.mean,
        s.inverse_deviation, true, get_eps(call), {b.wants(0), b.wants(1), b.wants(2)}, s.reserve);
    if (b.wants(0)) images.push_back(gx);
    add(1, gscale);
    add(2, gshift);
  }
  if (b.wants(0)) out[0] = join_groups(std::move(images));
  return out;
}

}  // namespace

const Kernel kBatchNormKernel = {"batch_norm", batch_norm_forward, batch_norm_backward};

}  // namespace tandem::runtime

// rms_norm on a device that has some of the rows, each of them whole.
#include <cmath>

#include "ops/attributes.h"
#include "runtime/aten.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

template <class T>
[[gnu::optimize("O3", "associative-math", "no-signed-zeros", "no-trapping-math")]] T sum_squares(
    const T* __restrict x, std::int64_t width) {
  T sum = 0;
  for (std::int64_t i = 0; i < width; ++i) sum += x[i] * x[i];
  return sum;
}

template <class T>
[[gnu::optimize("O3", "associative-math", "no-signed-zeros", "no-trapping-math")]] T
sum_triple_products(const T* __restrict x, const T* __restrict g, const T* __restrict scale,
                    std::int64_t width) {
  T sum = 0;
  for (std::int64_t i = 0; i < width; ++i) sum += x[i] * g[i] * scale[i];
  return sum;
}

template <class T>
[[gnu::optimize("O3")]] void scale_row(T* __restrict to, const T* __restrict x,
                                       const T* __restrict scale, T rate, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) to[i] = x[i] * rate * scale[i];
}

// Computes rate * (g scale - n mean(g scale n)), where n = x rate and drift = rate mean(g scale n).
template <class T>
[[gnu::optimize("O3")]] void compute_row_gradient(T* __restrict to, const T* __restrict x,
                                                  const T* __restrict g, const T* __restrict scale,
                                                  T rate, T drift, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) to[i] = rate * (g[i] * scale[i] - x[i] * drift);
}

template <class T>
[[gnu::optimize("O3")]] void add_scaled_row(T* __restrict to, const T* __restrict x,
                                            const T* __restrict g, T rate, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) to[i] += g[i] * x[i] * rate;
}

// --- By ATen, on any device ----------------------------------------------------------------------

// Returns 1 / (root mean square) of every row, [rows, 1].
at::Tensor compute_rates_by_aten(const Call& call, const at::Tensor& x) {
  const auto rows = x.reshape({-1, x.size(-1)});
  return at::mean(at::mul(rows, rows), {1}, true).add_(call.op.get<ops::Norm>().eps).rsqrt_();
}

at::Tensor rms_norm_by_aten(const Call& call, const at::Tensor& x, const at::Tensor& scale) {
  const auto rates = compute_rates_by_aten(call, x);
  call.save({rates});
  return at::mul(x.reshape({-1, x.size(-1)}), rates).mul_(scale).view(x.sizes());
}

Gradients rms_norm_gradients_by_aten(const Call& call, const BackwardInput& b) {
  const auto x = b.operands[0].reshape({-1, b.operands[0].size(-1)});
  const auto g = b.gradient.reshape(x.sizes());
  const auto rates = call.has_saved() ? call.saved->at(0) : compute_rates_by_aten(call, x);
  const auto normal = at::mul(x, rates);
  Gradients out(2);
  if (b.wants(0)) {
    const auto scaled = at::mul(g, b.operands[1]);
    const auto drift = at::mean(at::mul(scaled, normal), {1}, true);
    out[0] = at::sub(scaled, at::mul(normal, drift)).mul_(rates).view(b.operands[0].sizes());
  }
  if (b.wants(1)) out[1] = at::sum(at::mul(g, normal), {0});
  return out;
}

// --- By ATen's kernels for GPUs ------------------------------------------------------------------

#if defined(TANDEM_HAS_CUDA) && __has_include(<ATen/ops/_fused_rms_norm_backward.h>)
constexpr bool kIsFusedOnGpus = true;

at::Tensor fused_rms_norm(const Call& call, const at::Tensor& x, const at::Tensor& scale) {
  const auto [out, rates] =
      at::_fused_rms_norm(x, {x.size(-1)}, scale, call.op.get<ops::Norm>().eps);
  call.save({rates});
  return out;
}

Gradients fused_rms_norm_gradients(const Call& call, const BackwardInput& b) {
  const auto& x = b.operands[0];
  // The scale is undefined if only its gradient is wanted. Its value then does not matter.
  const auto scale = b.operands[1].defined() ? b.operands[1] : at::ones({x.size(-1)}, x.options());
  const auto rates =
      call.has_saved()
          ? call.saved->at(0)
          : std::get<1>(at::_fused_rms_norm(x, {x.size(-1)}, scale, call.op.get<ops::Norm>().eps));
  const auto [gx, gscale] = at::_fused_rms_norm_backward(b.gradient, x, {x.size(-1)}, rates, scale,
                                                         {b.wants(0), b.wants(1)});
  return {gx, gscale};
}
#else
constexpr bool kIsFusedOnGpus = false;

at::Tensor fused_rms_norm(const Call&, const at::Tensor&, const at::Tensor&) { return {}; }
Gradients fused_rms_norm_gradients(const Call&, const BackwardInput&) { return {}; }
#endif

// --- By rows, on the CPU -------------------------------------------------------------------------

// Returns 1 / (root mean square) of every row.
at::Tensor compute_rates(const Call& call, const at::Tensor& x) {
  const auto width = x.size(-1);
  const auto rows = x.numel() / width;
  auto out = at::empty({rows}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rms_norm", [&] {
    const auto* from = x.data_ptr<scalar_t>();
    auto* rate = out.data_ptr<scalar_t>();
    const auto eps = static_cast<scalar_t>(call.op.get<ops::Norm>().eps);
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto mean = sum_squares(from + r * width, width) / static_cast<scalar_t>(width);
      rate[r] = 1 / std::sqrt(mean + eps);
    }
  });
  return out;
}

at::Tensor rms_norm_forward(const Call& call, std::span<const at::Tensor> in) {
  if (kIsFusedOnGpus && in[0].is_cuda()) return fused_rms_norm(call, in[0], in[1]);
  if (!in[0].is_cpu()) return rms_norm_by_aten(call, in[0], in[1]);
  const auto x = in[0].contiguous();
  const auto scale = in[1].contiguous();
  const auto rates = compute_rates(call, x);
  const auto width = x.size(-1);
  auto out = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rms_norm", [&] {
    const auto* rate = rates.data_ptr<scalar_t>();
    for (std::int64_t r = 0; r < rates.numel(); ++r) {
      scale_row(out.data_ptr<scalar_t>() + r * width, x.data_ptr<scalar_t>() + r * width,
                scale.data_ptr<scalar_t>(), rate[r], width);
    }
  });
  call.save({rates});
  return out;
}

Gradients rms_norm_backward(const Call& call, const BackwardInput& b) {
  if (kIsFusedOnGpus && b.gradient.is_cuda()) return fused_rms_norm_gradients(call, b);
  if (!b.gradient.is_cpu()) return rms_norm_gradients_by_aten(call, b);
  const auto x = b.operands[0].contiguous();
  const auto g = b.gradient.contiguous();
  const auto rates = call.has_saved() ? call.saved->at(0) : compute_rates(call, x);
  const auto width = x.size(-1);
  Gradients out(2);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rms_norm_backward", [&] {
    const auto* rate = rates.data_ptr<scalar_t>();
    const auto* from = x.data_ptr<scalar_t>();
    const auto* gradient = g.data_ptr<scalar_t>();
    if (b.wants(0)) {
      const auto scale = b.operands[1].contiguous();
      const auto* factors = scale.data_ptr<scalar_t>();
      out[0] = at::empty_like(x);
      auto* to = out[0].data_ptr<scalar_t>();
      for (std::int64_t r = 0; r < rates.numel(); ++r) {
        const auto at = r * width;
        const auto dot = sum_triple_products(from + at, gradient + at, factors, width);
        const auto drift = rate[r] * rate[r] * dot / static_cast<scalar_t>(width);
        compute_row_gradient(to + at, from + at, gradient + at, factors, rate[r], drift, width);
      }
    }
    if (b.wants(1)) {
      out[1] = at::zeros({width}, x.options());
      auto* to = out[1].data_ptr<scalar_t>();
      for (std::int64_t r = 0; r < rates.numel(); ++r) {
        add_scaled_row(to, from + r * width, gradient + r * width, rate[r], width);
      }
    }
  });
  return out;
}

}  // namespace

const Kernel kRmsNormKernel = {"rms_norm", rms_norm_forward, rms_norm_backward};

}  // namespace tandem::runtime

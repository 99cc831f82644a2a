// Mixture of experts: the gates, and the way of tokens to the experts and back. If an expert does
// not get a token, its input has a row of zeros there. That costs only the write, because the gates
// show which rows are zero.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/attributes.h"
#include "runtime/aten.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

// --- Gates --------------------------------------------------------------------------------------

// Writes the softmax over the k largest elements of x, and zeros elsewhere. The first of equal
// elements is chosen. Example: x = [1 2 2], k = 1 -> [0 1 0].
template <class T>
void compute_gate_row(T* to, const T* x, std::int64_t experts, std::int64_t k) {
  std::fill_n(to, experts, T(0));
  T largest = 0;
  T sum = 0;
  for (std::int64_t chosen = 0; chosen < k; ++chosen) {
    std::int64_t best = -1;
    for (std::int64_t e = 0; e < experts; ++e) {
      if (to[e] == 0 && (best < 0 || x[e] > x[best])) best = e;
    }
    if (chosen == 0) largest = x[best];
    to[best] = std::max(std::exp(x[best] - largest), std::numeric_limits<T>::min());
    sum += to[best];
  }
  for (std::int64_t e = 0; e < experts; ++e) to[e] /= sum;
}

// Computes the gates by ATen, on any device. A stable sort finds the k largest.
at::Tensor compute_gates_by_aten(const at::Tensor& x, std::int64_t k) {
  const auto order = std::get<1>(at::sort(x, /*stable=*/true, -1, /*descending=*/true));
  const auto largest = at::amax(x, {-1}, true);
  const auto tiny = x.scalar_type() == at::kDouble ? std::numeric_limits<double>::min()
                                                   : double{std::numeric_limits<float>::min()};
  const auto chosen = at::zeros_like(x).scatter_(-1, order.narrow(-1, 0, k), 1);
  const auto weights = at::sub(x, largest).exp_().clamp_min_(tiny).mul_(chosen);
  return at::div(weights, at::sum(weights, {-1}, true));
}

at::Tensor gate_forward(const Call& call, std::span<const at::Tensor> in) {
  if (!in[0].is_cpu()) return compute_gates_by_aten(in[0], call.op.get<ops::TopK>().k);
  const auto x = in[0].contiguous();
  const auto experts = x.size(-1);
  auto out = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "top_k_gate", [&] {
    for (std::int64_t at = 0; at < x.numel(); at += experts) {
      compute_gate_row(out.data_ptr<scalar_t>() + at, x.data_ptr<scalar_t>() + at, experts,
                       call.op.get<ops::TopK>().k);
    }
  });
  return out;
}

// The choice of experts counts as constant; among the chosen ones this is a softmax's gradient.
Gradients gate_backward(const Call& call, const BackwardInput& b) {
  const auto result = b.result.defined() ? b.result : gate_forward(call, b.operands);
  return {at::_softmax_backward_data(b.gradient.contiguous(), result.contiguous(), -1,
                                     result.scalar_type())};
}

// --- Dispatch and combine ------------------------------------------------------------------------

template <class T>
[[gnu::optimize("O3")]] void add_scaled(T* __restrict to, const T* __restrict from, T factor,
                                        std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) to[i] += factor * from[i];
}

template <class T>
[[gnu::optimize("O3", "associative-math", "no-signed-zeros", "no-trapping-math")]] T dot(
    const T* __restrict a, const T* __restrict b, std::int64_t width) {
  T sum = 0;
  for (std::int64_t i = 0; i < width; ++i) sum += a[i] * b[i];
  return sum;
}

// Calls visit(expert, token, gate) for every pair. `gates` is [tokens..., experts].
template <class T, class Visit>
void for_each_gate(const at::Tensor& gates, Visit&& visit) {
  const auto experts = gates.size(-1);
  const auto tokens = gates.numel() / experts;
  const auto* gate = gates.data_ptr<T>();
  for (std::int64_t e = 0; e < experts; ++e) {
    for (std::int64_t t = 0; t < tokens; ++t) visit(e, t, gate[t * experts + e]);
  }
}

// Reshapes gates [tokens..., experts] to [experts, tokens..., 1].
at::Tensor move_experts_first(const at::Tensor& gates) {
  return gates.movedim(-1, 0).unsqueeze(-1);
}

at::Tensor zero_unsent_rows(const at::Tensor& gates, const at::Tensor& rows) {
  return at::where(move_experts_first(gates).ne(0), rows, at::zeros({}, rows.options()));
}

at::Tensor dispatch_forward(const Call&, std::span<const at::Tensor> in) {
  if (!in[0].is_cpu()) return zero_unsent_rows(in[1], in[0].unsqueeze(0));
  const auto x = in[0].contiguous();
  const auto gates = in[1].contiguous();
  const auto width = x.size(-1);
  const auto tokens = x.numel() / width;
  auto sizes = x.sizes().vec();
  sizes.insert(sizes.begin(), gates.size(-1));
  auto out = at::empty(sizes, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "moe_dispatch", [&] {
    const auto* from = x.data_ptr<scalar_t>();
    auto* to = out.data_ptr<scalar_t>();
    for_each_gate<scalar_t>(gates, [&](std::int64_t e, std::int64_t t, scalar_t gate) {
      auto* row = to + (e * tokens + t) * width;
      if (gate == 0) {
        std::fill_n(row, width, scalar_t(0));
      } else {
        std::copy_n(from + t * width, width, row);
      }
    });
  });
  return out;
}

// The gate only selects where a token goes, so its gradient is zero.
Gradients dispatch_backward(const Call& call, const BackwardInput& b) {
  Gradients out(2);
  if (b.wants(1)) out[1] = at::zeros(to_aten(call.operands[1].local), b.gradient.options());
  if (!b.wants(0)) return out;
  if (!b.gradient.is_cpu()) {
    out[0] = at::sum(zero_unsent_rows(b.operands[1], b.gradient), {0});
    return out;
  }
  const auto gates = b.operands[1].contiguous();
  const auto g = b.gradient.contiguous();
  const auto width = g.size(-1);
  out[0] = at::zeros(to_aten(call.operands[0].local), g.options());
  const auto tokens = out[0].numel() / width;
  AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "moe_dispatch_backward", [&] {
    auto* to = out[0].data_ptr<scalar_t>();
    const auto* from = g.data_ptr<scalar_t>();
    for_each_gate<scalar_t>(gates, [&](std::int64_t e, std::int64_t t, scalar_t gate) {
      if (gate != 0) {
        add_scaled(to + t * width, from + (e * tokens + t) * width, scalar_t(1), width);
      }
    });
  });
  return out;
}

at::Tensor combine_forward(const Call&, std::span<const at::Tensor> in) {
  if (!in[1].is_cpu()) return at::sum(at::mul(in[1], move_experts_first(in[0])), {0});
  const auto gates = in[0].contiguous();
  const auto y = in[1].contiguous();
  const auto width = y.size(-1);
  auto out = at::zeros(y.sizes().slice(1), y.options());
  const auto tokens = out.numel() / width;
  AT_DISPATCH_FLOATING_TYPES(y.scalar_type(), "moe_combine", [&] {
    auto* to = out.data_ptr<scalar_t>();
    const auto* from = y.data_ptr<scalar_t>();
    for_each_gate<scalar_t>(gates, [&](std::int64_t e, std::int64_t t, scalar_t gate) {
      if (gate != 0) add_scaled(to + t * width, from + (e * tokens + t) * width, gate, width);
    });
  });
  return out;
}

Gradients combine_backward_by_aten(const BackwardInput& b) {
  const auto g = b.gradient.unsqueeze(0);
  Gradients out(2);
  if (b.wants(0)) out[0] = at::sum(at::mul(b.operands[1], g), {-1}).movedim(0, -1).contiguous();
  if (b.wants(1)) out[1] = at::mul(move_experts_first(b.operands[0]), g);
  return out;
}

Gradients combine_backward(const Call& call, const BackwardInput& b) {
  if (!b.gradient.is_cpu()) return combine_backward_by_aten(b);
  const auto g = b.gradient.contiguous();
  const auto width = g.size(-1);
  const auto tokens = g.numel() / width;
  Gradients out(2);
  AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "moe_combine_backward", [&] {
    const auto* gradient = g.data_ptr<scalar_t>();
    if (b.wants(0)) {
      const auto y = b.operands[1].contiguous();
      const auto* from = y.data_ptr<scalar_t>();
      out[0] = at::empty(to_aten(call.operands[0].local), g.options());
      auto* to = out[0].data_ptr<scalar_t>();
      const auto experts = out[0].size(-1);
      for_each_gate<scalar_t>(out[0], [&](std::int64_t e, std::int64_t t, scalar_t) {
        to[t * experts + e] = dot(gradient + t * width, from + (e * tokens + t) * width, width);
      });
    }
    if (b.wants(1)) {
      out[1] = at::zeros(to_aten(call.operands[1].local), g.options());
      auto* to = out[1].data_ptr<scalar_t>();
      for_each_gate<scalar_t>(
          b.operands[0].contiguous(), [&](std::int64_t e, std::int64_t t, scalar_t gate) {
            if (gate == 0) return;
            add_scaled(to + (e * tokens + t) * width, gradient + t * width, gate, width);
          });
    }
  });
  return out;
}

}  // namespace

const Kernel kTopKGateKernel = {"top_k_gate", gate_forward, gate_backward,
                                [](const ops::Op&) { return true; }};
const Kernel kMoeDispatchKernel = {"moe_dispatch", dispatch_forward, dispatch_backward};
const Kernel kMoeCombineKernel = {"moe_combine", combine_forward, combine_backward};

}  // namespace tandem::runtime

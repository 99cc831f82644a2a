#include "runtime/optimizer.h"

#include <cmath>

#include "plan/plan.h"
#include "runtime/aten.h"

namespace tandem::runtime {

namespace {

template <class T, class Gradient>
[[gnu::optimize("O3", "no-math-errno")]] void update_adam_elements(
    T* __restrict w, const Gradient* __restrict gradient, T* __restrict m, T* __restrict v,
    std::int64_t count, T rate, T correction) {
  constexpr T kBeta1 = T(0.9);
  constexpr T kBeta2 = T(0.999);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto g = static_cast<T>(gradient[i]);
    m[i] = kBeta1 * m[i] + (1 - kBeta1) * g;
    v[i] = kBeta2 * v[i] + (1 - kBeta2) * g * g;
    w[i] -= rate * m[i] / (std::sqrt(v[i]) * correction + T(1e-8));
  }
}

template <class T>
[[gnu::optimize("O3")]] void subtract_row(T* __restrict to, const T* __restrict from,
                                          std::int64_t width, T rate) {
  for (std::int64_t d = 0; d < width; ++d) to[d] -= rate * from[d];
}

// Runs Adam by ATen on any device, in several passes over memory.
void apply_adam_by_aten(at::Tensor& weight, const at::Tensor& gradient, at::Tensor& mean,
                        at::Tensor& square, double rate, double correction) {
  const auto g = gradient.to(weight.scalar_type());
  mean.mul_(0.9).add_(g, 1 - 0.9);
  square.mul_(0.999).addcmul_(g, g, 1 - 0.999);
  weight.addcdiv_(mean, at::sqrt(square).mul_(correction).add_(1e-8), -rate);
}

void apply_sgd_to_rows(at::Tensor& weight, const at::Tensor& gradient, double rate) {
  auto rows = gradient._indices()[0];
  // Rows of several tables are numbered through all tables.
  if (gradient.sparse_dim() == 2)
    rows = at::add(at::mul(rows, weight.size(1)), gradient._indices()[1]);
  rows = rows.contiguous();
  const auto values = gradient._values().to(weight.scalar_type()).contiguous();
  const auto width = values.size(1);
  if (!weight.is_cpu()) {
    weight.view({-1, width}).index_add_(0, rows, values, -rate);
    return;
  }
  AT_DISPATCH_FLOATING_TYPES(weight.scalar_type(), "sgd", [&] {
    const auto* row = rows.data_ptr<std::int64_t>();
    const auto* value = values.data_ptr<scalar_t>();
    auto* w = weight.data_ptr<scalar_t>();
    for (std::int64_t i = 0; i < rows.numel(); ++i) {
      subtract_row(w + row[i] * width, value + i * width, width, static_cast<scalar_t>(rate));
    }
  });
}

}  // namespace

void apply_sgd(at::Tensor& weight, const at::Tensor& gradient, double rate) {
  if (gradient.is_sparse()) {
    apply_sgd_to_rows(weight, gradient, rate);
  } else {
    weight.sub_(gradient, rate);
  }
}

void apply_momentum(at::Tensor& weight, const at::Tensor& gradient, at::Tensor& velocity,
                    double rate) {
  velocity.mul_(plan::kVelocityDecay).add_(gradient);
  weight.sub_(velocity, rate);
}

void apply_adam(at::Tensor& weight, const at::Tensor& gradient, at::Tensor& mean,
                at::Tensor& square, double rate, std::int64_t step) {
  const double first = 1 - std::pow(0.9, static_cast<double>(step));
  const double second = 1 - std::pow(0.999, static_cast<double>(step));
  if (!weight.is_cpu()) {
    return apply_adam_by_aten(weight, gradient, mean, square, rate / first, 1 / std::sqrt(second));
  }
  const auto g = gradient.contiguous();
  AT_DISPATCH_FLOATING_TYPES(weight.scalar_type(), "adam", [&] {
    const auto update = [&]<class Gradient>(const Gradient* elements) {
      update_adam_elements(weight.data_ptr<scalar_t>(), elements, mean.data_ptr<scalar_t>(),
                           square.data_ptr<scalar_t>(), weight.numel(),
                           static_cast<scalar_t>(rate / first),
                           static_cast<scalar_t>(1 / std::sqrt(second)));
    };
    if (g.scalar_type() == at::kBFloat16) return update(g.data_ptr<at::BFloat16>());
    update(g.data_ptr<scalar_t>());
  });
}

}  // namespace tandem::runtime

// rope: rotates pairs of elements, half a row apart, by an angle. The gradient is rotated back.
#include <cmath>
#include <map>
#include <tuple>

#include "ops/attributes.h"
#include "runtime/aten.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

// Returns the cosine and sine for every position and pair: [cos or sin, rows, pairs].
at::Tensor make_rotations(double base, std::int64_t first, std::int64_t rows, std::int64_t pairs,
                          const at::TensorOptions& options) {
  auto out = at::empty({2, rows, pairs}, at::kDouble);
  auto* cos = out.data_ptr<double>();
  auto* sin = cos + rows * pairs;
  const double rate = -std::log(base) / static_cast<double>(pairs);
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double speed = std::exp(rate * static_cast<double>(i));
    for (std::int64_t r = 0; r < rows; ++r) {
      const double angle = static_cast<double>(first + r) * speed;
      cos[r * pairs + i] = std::cos(angle);
      sin[r * pairs + i] = std::sin(angle);
    }
  }
  return out.to(options);
}

// Returns cached cosines and sines, which are expensive and the same in every layer and step.
const at::Tensor& get_rotations(const Call& call, const at::TensorOptions& options) {
  const auto& a = call.op.get<ops::Rope>();
  const auto& shard = call.operands[0];
  const auto d = shard.local.rank() - 2;
  const auto first = a.first + shard.offset[d];
  using Key = std::tuple<double, std::int64_t, std::int64_t, std::int64_t, at::ScalarType,
                         at::DeviceType, at::DeviceIndex>;
  const auto device = options.device();
  const Key key{a.base,
                first,
                shard.local[d],
                shard.local[d + 1] / 2,
                c10::typeMetaToScalarType(options.dtype()),
                device.type(),
                device.index()};
  thread_local std::map<Key, at::Tensor> made;
  auto& out = made[key];
  if (!out.defined()) {
    out = make_rotations(a.base, first, std::get<2>(key), std::get<3>(key), options);
  }
  return out;
}

template <class T>
[[gnu::optimize("O3")]] void rotate_row(T* __restrict to, const T* __restrict x,
                                        const T* __restrict cos, const T* __restrict sin, T sign,
                                        std::int64_t pairs) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    to[i] = x[i] * cos[i] - sign * x[i + pairs] * sin[i];
    to[i + pairs] = x[i + pairs] * cos[i] + sign * x[i] * sin[i];
  }
}

// Rotates by ATen, on any device.
at::Tensor rotate_by_aten(const at::Tensor& x, const at::Tensor& table, int sign) {
  const auto halves = x.split(x.size(-1) / 2, -1);
  const auto cos = table.select(0, 0);
  const auto sin = table.select(0, 1);
  auto out = at::empty_like(x);
  auto made = out.split(x.size(-1) / 2, -1);
  at::addcmul_out(made[0], at::mul(halves[0], cos), halves[1], sin, -sign);
  at::addcmul_out(made[1], at::mul(halves[1], cos), halves[0], sin, sign);
  return out;
}

at::Tensor rotate_pairs(const Call& call, const at::Tensor& given, int sign) {
  const auto x = given.contiguous();
  const auto& table = get_rotations(call, x.options().dtype(at::toOpMathType(x.scalar_type())));
  if (!x.is_cpu()) return rotate_by_aten(x, table, sign);
  const auto rows = table.size(1);
  const auto pairs = table.size(2);
  auto out = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rope", [&] {
    const auto* cos = table.data_ptr<scalar_t>();
    const auto* sin = cos + rows * pairs;
    const auto* from = x.data_ptr<scalar_t>();
    auto* to = out.data_ptr<scalar_t>();
    const auto all = x.numel() / (2 * pairs);
    for (std::int64_t r = 0; r < all; ++r) {
      const auto first_angle = r % rows * pairs;
      rotate_row(to + r * 2 * pairs, from + r * 2 * pairs, cos + first_angle, sin + first_angle,
                 static_cast<scalar_t>(sign), pairs);
    }
  });
  return out;
}

}  // namespace

const Kernel kRopeKernel = {
    "rope",
    [](const Call& call, std::span<const at::Tensor> in) { return rotate_pairs(call, in[0], 1); },
    [](const Call& call, const BackwardInput& b) -> Gradients {
      return {rotate_pairs(call, b.gradient, -1)};
    }};

}  // namespace tandem::runtime

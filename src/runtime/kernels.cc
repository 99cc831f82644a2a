#include "runtime/kernels.h"

#include <array>

#include "ops/attributes.h"
#include "runtime/aten.h"

namespace tandem::runtime {

namespace {

using Operands = std::span<const at::Tensor>;

at::Tensor add_forward(const Call&, Operands in) { return at::add(in[0], in[1]); }

Gradients add_backward(const Call&, const BackwardInput& b) { return {b.gradient, b.gradient}; }

at::Tensor relu_forward(const Call&, Operands in) { return at::relu(in[0]); }

// The result is positive exactly where the operand is.
Gradients relu_backward(const Call&, const BackwardInput& b) {
  const auto& x = b.result.defined() ? b.result : b.operands[0];
  return {at::threshold_backward(b.gradient, x, 0)};
}

// --- Linear and matmul --------------------------------------------------------------------------

// Leading dimensions joined: [..., k] as [rows, k].
at::Tensor as_matrix(const at::Tensor& t) { return t.reshape({-1, t.size(-1)}); }

bool has_relu(const ops::Op& op) { return op.get<ops::Linear>().act == ops::Activation::kRelu; }

at::Tensor linear_forward(const Call& call, Operands in) {
  const auto x = as_matrix(in[0]);
  auto out = in.size() == 3 ? at::addmm(in[2], x, in[1].t()) : at::mm(x, in[1].t());
  if (has_relu(call.op)) out = at::relu_(out);
  auto sizes = in[0].sizes().vec();
  sizes.back() = in[1].size(0);
  return out.view(sizes);
}

Gradients linear_backward(const Call& call, const BackwardInput& b) {
  auto g = b.gradient;
  if (has_relu(call.op)) {
    // The activated result is positive exactly where the sum before it is.
    const auto result = b.result.defined() ? b.result : linear_forward(call, b.operands);
    g = at::threshold_backward(g, result, 0);
  }
  g = as_matrix(g);
  Gradients out(b.operands.size());
  if (b.wants(0)) out[0] = at::mm(g, b.operands[1]).view(to_aten(call.operands[0].local));
  if (b.wants(1)) out[1] = at::mm(g.t(), as_matrix(b.operands[0]));
  if (b.operands.size() == 3 && b.wants(2)) out[2] = at::sum(g, 0);
  return out;
}

at::Tensor matmul_forward(const Call&, Operands in) { return at::matmul(in[0], in[1]); }

Gradients matmul_backward(const Call&, const BackwardInput& b) {
  Gradients out(2);
  if (b.wants(0)) out[0] = at::matmul(b.gradient, b.operands[1].transpose(-2, -1));
  if (b.wants(1)) out[1] = at::matmul(b.operands[0].transpose(-2, -1), b.gradient);
  return out;
}

// --- Normalisations -----------------------------------------------------------------------------

at::Tensor softmax_forward(const Call&, Operands in) { return at::_softmax(in[0], -1, false); }

Gradients softmax_backward(const Call& call, const BackwardInput& b) {
  const auto result = b.result.defined() ? b.result : softmax_forward(call, b.operands);
  return {at::_softmax_backward_data(b.gradient, result, -1, result.scalar_type())};
}

auto normalised(const Call& call, const at::Tensor& x, const at::Tensor& scale,
                const at::Tensor& shift) {
  return at::native_layer_norm(x, {x.size(-1)}, scale, shift, call.op.get<ops::Norm>().eps);
}

at::Tensor layer_norm_forward(const Call& call, Operands in) {
  return std::get<0>(normalised(call, in[0], in[1], in[2]));
}

Gradients layer_norm_backward(const Call& call, const BackwardInput& b) {
  if (!b.wants(0) && !b.wants(1)) {  // then the operands are not kept
    return {{}, {}, b.gradient.reshape({-1, b.gradient.size(-1)}).sum(0)};
  }
  const auto& x = b.operands[0];
  // Where only its gradient is wanted it is not kept, and its shape is all that is looked at; the
  // same goes for the shift.
  const auto scale = b.operands[1].defined() ? b.operands[1] : at::ones({x.size(-1)}, x.options());
  const auto& shift = scale;
  const auto [unused, mean, inverse_deviation] = normalised(call, x, scale, shift);
  auto [gx, gscale, gshift] = at::native_layer_norm_backward(
      b.gradient.contiguous(), x.contiguous(), {x.size(-1)}, mean, inverse_deviation, scale, shift,
      {b.wants(0), b.wants(1), b.wants(2)});
  return {gx, gscale, gshift};
}

// --- Concat and loss ----------------------------------------------------------------------------

at::Tensor concat_forward(const Call& call, Operands in) {
  return at::cat(at::TensorList(in.data(), in.size()), call.op.get<ops::Concat>().axis);
}

Gradients concat_backward(const Call& call, const BackwardInput& b) {
  const auto axis = call.op.get<ops::Concat>().axis;
  std::vector<std::int64_t> sizes;
  for (const auto& o : call.operands) sizes.push_back(o.local[static_cast<std::size_t>(axis)]);
  return at::split_with_sizes(b.gradient, sizes, axis);
}

// The mean is over all devices' elements.
double mse_weight(const Call& call) {
  return 1 / static_cast<double>(call.operands[0].sizes.count());
}

at::Tensor mse_forward(const Call& call, Operands in) {
  return at::mse_loss(in[0], in[1], at::Reduction::Sum).mul_(mse_weight(call));
}

Gradients mse_backward(const Call& call, const BackwardInput& b) {
  const auto g =
      at::sub(b.operands[0], b.operands[1]).mul_(at::mul(b.gradient, 2 * mse_weight(call)));
  return {b.wants(0) ? g : at::Tensor(), b.wants(1) ? at::neg(g) : at::Tensor()};
}

bool is_cheaper(const ops::Op&) { return true; }

// --- What they cover ----------------------------------------------------------------------------

bool same_shapes(const Call& call) { return call.operands[0].sizes == call.operands[1].sizes; }

bool linear_covers(const Call& call) {
  return has_relu(call.op) || call.op.get<ops::Linear>().act == ops::Activation::kNone;
}

bool matmul_covers(const Call& call) {
  const auto& a = call.operands[0].sizes;
  const auto& b = call.operands[1].sizes;
  return a.rank() == b.rank() && std::equal(a.begin(), a.end() - 2, b.begin());
}

bool softmax_covers(const Call& call) {
  const auto& softmax = call.op.get<ops::Softmax>();
  const auto last = static_cast<std::int64_t>(call.operands[0].sizes.rank()) - 1;
  return !softmax.causal && (softmax.axis == -1 || softmax.axis == last);
}

bool layer_norm_covers(const Call& call) { return call.operands.size() == 3; }

constexpr auto kNoResult = [](const ops::Op&) { return false; };

}  // namespace

const Kernel& find_kernel(const Call& call) {
  static const std::array kTable = {
      Kernel{"add", add_forward, add_backward, kNoResult, same_shapes},
      Kernel{"concat", concat_forward, concat_backward},
      kContractKernel,
      kEmbeddingBagKernel,
      Kernel{"layer_norm", layer_norm_forward, layer_norm_backward, kNoResult, layer_norm_covers},
      Kernel{"linear", linear_forward, linear_backward, has_relu, linear_covers},
      Kernel{"matmul", matmul_forward, matmul_backward, kNoResult, matmul_covers},
      Kernel{"mse", mse_forward, mse_backward},
      Kernel{"relu", relu_forward, relu_backward, is_cheaper},
      Kernel{"softmax", softmax_forward, softmax_backward, is_cheaper, softmax_covers},
  };
  for (const auto& kernel : kTable) {
    if (kernel.name == call.op.spec().kernel && kernel.covers(call)) return kernel;
  }
  return kMeaningKernel;
}

}  // namespace tandem::runtime

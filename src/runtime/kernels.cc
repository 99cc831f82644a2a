#include "runtime/kernels.h"

#include <array>
#include <limits>

#include "ops/attributes.h"
#include "runtime/activations.h"
#include "runtime/aten.h"
#include "runtime/matmul.h"

namespace tandem::runtime {

namespace {

using Operands = std::span<const at::Tensor>;

// --- Elementwise sums and products ---------------------------------------------------------------

// Returns the gradient of operand `i`. If the operand is broadcast, it sums over the broadcast
// dimensions.
at::Tensor sum_to_operand(const Call& call, std::size_t i, const at::Tensor& gradient) {
  return at::sum_to(gradient, to_aten(call.operands[i].local));
}

at::Tensor add_forward(const Call&, Operands in) { return at::add(in[0], in[1]); }

Gradients add_backward(const Call& call, const BackwardInput& b) {
  return {sum_to_operand(call, 0, b.gradient), sum_to_operand(call, 1, b.gradient)};
}

constexpr Kernel kAddKernel = {"add", add_forward, add_backward};

at::Tensor mul_forward(const Call&, Operands in) { return at::mul(in[0], in[1]); }

Gradients mul_backward(const Call& call, const BackwardInput& b) {
  Gradients out(2);
  for (const std::size_t i : {0, 1}) {
    if (b.wants(i)) out[i] = sum_to_operand(call, i, at::mul(b.gradient, b.operands[1 - i]));
  }
  return out;
}

constexpr Kernel kMulKernel = {"mul", mul_forward, mul_backward};

// --- Linear and matmul --------------------------------------------------------------------------

// Joins the leading dimensions: [..., k] -> [rows, k].
at::Tensor as_matrix(const at::Tensor& t) { return t.reshape({-1, t.size(-1)}); }

ops::Activation get_activation(const ops::Op& op) { return op.get<ops::LinearAttributes>().act; }

// Returns whether the result is worth saving for backward: there is an activation, and its gradient
// needs only the result.
bool linear_saves_result(const ops::Op& op) {
  return get_activation(op) != ops::Activation::kNone &&
         has_gradient_from_result(get_activation(op));
}

// Returns the result before the activation, as a matrix.
at::Tensor compute_linear_preactivation(Operands in) {
  const auto x = as_matrix(in[0]);
  return compute_matmul(x, in[1].t(), in.size() == 3 ? in[2] : at::Tensor());
}

at::Tensor linear_forward(const Call& call, Operands in) {
  auto out = compute_linear_preactivation(in);
  if (get_activation(call.op) != ops::Activation::kNone && !linear_saves_result(call.op))
    call.save({out});
  out = get_activation(call.op) == ops::Activation::kRelu ? at::relu_(out)
                                                          : activate(get_activation(call.op), out);
  auto sizes = in[0].sizes().vec();
  sizes.back() = in[1].size(0);
  return out.view(sizes);
}

Gradients linear_backward(const Call& call, const BackwardInput& b) {
  auto g = as_matrix(b.gradient);
  const auto act = get_activation(call.op);
  if (linear_saves_result(call.op)) {
    const auto result = b.result.defined() ? b.result : linear_forward(call, b.operands);
    g = compute_activation_gradient(act, g, as_matrix(result));
  } else if (act != ops::Activation::kNone) {
    g = compute_activation_gradient(
        act, g, call.has_saved() ? call.saved->at(0) : compute_linear_preactivation(b.operands));
  }
  Gradients out(b.operands.size());
  if (b.wants(0)) out[0] = compute_matmul(g, b.operands[1]).view(to_aten(call.operands[0].local));
  if (b.wants(1)) {
    const auto x = as_matrix(b.operands[0]);
    if (b.weight.defined()) {
      auto weight = b.weight;
      add_matmul(weight, g.t(), x, -b.rate);
    } else {
      out[1] = b.wide ? compute_wide_matmul(g.t(), x) : compute_matmul(g.t(), x);
    }
  }
  if (b.operands.size() == 3 && b.wants(2)) out[2] = at::sum(g, 0);
  return out;
}

constexpr Kernel kLinearKernel = {"linear", linear_forward, linear_backward, linear_saves_result};

// Returns whether the second operand is one matrix for all leading dimensions of the first. Then
// one matmul does for all of them; otherwise each has its own.
bool is_one_matmul(const Call& call) { return call.operands[1].local.rank() == 2; }

at::Tensor matmul_forward(const Call& call, Operands in) {
  if (!is_one_matmul(call)) return at::matmul(in[0], in[1]);
  auto sizes = in[0].sizes().vec();
  sizes.back() = in[1].size(1);
  return compute_matmul(as_matrix(in[0]), in[1]).view(sizes);
}

Gradients matmul_backward(const Call& call, const BackwardInput& b) {
  Gradients out(2);
  if (is_one_matmul(call)) {
    const auto g = as_matrix(b.gradient);
    if (b.wants(0)) {
      out[0] = compute_matmul(g, b.operands[1].t()).view(to_aten(call.operands[0].local));
    }
    if (b.wants(1)) out[1] = compute_matmul(as_matrix(b.operands[0]).t(), g);
    return out;
  }
  if (b.wants(0)) {
    out[0] = sum_to_operand(call, 0, at::matmul(b.gradient, b.operands[1].transpose(-2, -1)));
  }
  if (b.wants(1)) {
    out[1] = sum_to_operand(call, 1, at::matmul(b.operands[0].transpose(-2, -1), b.gradient));
  }
  return out;
}

constexpr Kernel kMatmulKernel = {"matmul", matmul_forward, matmul_backward};

// --- Normalizations ------------------------------------------------------------------------------

// With a causal mask, row r sees elements 0 to r. A device may have only some of the rows.
at::Tensor softmax_forward(const Call& call, Operands in) {
  const auto& x = in[0];
  if (!call.op.get<ops::Softmax>().causal) return at::_softmax(x, -1, false);
  const auto& shard = call.operands[0];
  const auto first = shard.offset[shard.offset.rank() - 2];
  const auto hidden =
      at::ones({x.size(-2), x.size(-1)}, x.options().dtype(at::kBool)).triu(first + 1);
  return at::_softmax(x.masked_fill(hidden, -std::numeric_limits<double>::infinity()), -1, false);
}

Gradients softmax_backward(const Call& call, const BackwardInput& b) {
  const auto result = b.result.defined() ? b.result : softmax_forward(call, b.operands);
  return {at::_softmax_backward_data(b.gradient, result, -1, result.scalar_type())};
}

bool softmax_uses_result(const ops::Op&) { return true; }

bool softmax_covers(const Call& call) {
  const auto& softmax = call.op.get<ops::Softmax>();
  const auto last = static_cast<std::int64_t>(call.operands[0].sizes.rank()) - 1;
  return softmax.axis == -1 || softmax.axis == last;
}

constexpr Kernel kSoftmaxKernel = {"softmax", softmax_forward, softmax_backward,
                                   softmax_uses_result, softmax_covers};

auto run_layer_norm(const Call& call, const at::Tensor& x, const at::Tensor& scale,
                    const at::Tensor& shift) {
  return at::native_layer_norm(x, {x.size(-1)}, scale, shift, call.op.get<ops::Norm>().eps);
}

at::Tensor layer_norm_forward(const Call& call, Operands in) {
  auto [out, mean, inverse_deviation] = run_layer_norm(call, in[0], in[1], in[2]);
  call.save({mean, inverse_deviation});
  return out;
}

Gradients layer_norm_backward(const Call& call, const BackwardInput& b) {
  if (!b.wants(0) && !b.wants(1)) {  // The operands are not saved
    return {{}, {}, b.gradient.reshape({-1, b.gradient.size(-1)}).sum(0)};
  }
  const auto& x = b.operands[0];
  // If only the scale's gradient is wanted, the scale is not saved for backward, and only its shape
  // matters. The same holds for the shift.
  const auto scale = b.operands[1].defined() ? b.operands[1] : at::ones({x.size(-1)}, x.options());
  const auto& shift = scale;
  at::Tensor mean, inverse_deviation;
  if (call.has_saved()) {
    mean = call.saved->at(0);
    inverse_deviation = call.saved->at(1);
  } else {
    std::tie(std::ignore, mean, inverse_deviation) = run_layer_norm(call, x, scale, shift);
  }
  auto [gx, gscale, gshift] = at::native_layer_norm_backward(
      b.gradient.contiguous(), x.contiguous(), {x.size(-1)}, mean, inverse_deviation, scale, shift,
      {b.wants(0), b.wants(1), b.wants(2)});
  return {gx, gscale, gshift};
}

bool layer_norm_covers(const Call& call) { return call.operands.size() == 3; }

constexpr Kernel kLayerNormKernel = {.name = "layer_norm",
                                     .forward = layer_norm_forward,
                                     .backward = layer_norm_backward,
                                     .covers = layer_norm_covers};

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

constexpr Kernel kConcatKernel = {"concat", concat_forward, concat_backward};

// Returns 1 / (number of elements on all devices), because the loss is their mean.
double compute_mse_weight(const Call& call) {
  return 1 / static_cast<double>(call.operands[0].sizes.count());
}

at::Tensor mse_forward(const Call& call, Operands in) {
  return at::mse_loss(in[0], in[1], at::Reduction::Sum).mul_(compute_mse_weight(call));
}

Gradients mse_backward(const Call& call, const BackwardInput& b) {
  const auto g =
      at::sub(b.operands[0], b.operands[1]).mul_(at::mul(b.gradient, 2 * compute_mse_weight(call)));
  return {b.wants(0) ? g : at::Tensor(), b.wants(1) ? at::neg(g) : at::Tensor()};
}

constexpr Kernel kMseKernel = {"mse", mse_forward, mse_backward};

// --- Table of kernels ----------------------------------------------------------------------------

constexpr std::array kKernels = {
    &kAddKernel,           &kAttentionKernel,     &kAvgPool2dKernel,
    &kBatchMomentsKernel,  &kBatchNormKernel,     &kBatchNormalizeKernel,
    &kCastKernel,          &kConcatKernel,        &kContractKernel,
    &kConv2dKernel,        &kCrossEntropyKernel,  &kDivKernel,
    &kDropoutKernel,       &kEmbeddingKernel,     &kEmbeddingBagKernel,
    &kEmbeddingBagsKernel, &kExpKernel,           &kGeluKernel,
    &kGeluTanhKernel,      &kGlobalAvgPoolKernel, &kIdentityKernel,
    &kInteractionKernel,   &kLayerNormKernel,     &kLinearKernel,
    &kLogKernel,           &kLogSoftmaxKernel,    &kMatmulKernel,
    &kMaxPool2dKernel,     &kMoeCombineKernel,    &kMoeDispatchKernel,
    &kMseKernel,           &kMulKernel,           &kNegKernel,
    &kPadKernel,           &kPickKernel,          &kReciprocalKernel,
    &kReduceMeanKernel,    &kReduceSumKernel,     &kReluKernel,
    &kReshapeKernel,       &kRmsNormKernel,       &kRopeKernel,
    &kRowMaxKernel,        &kRsqrtKernel,         &kScaleKernel,
    &kSigmoidKernel,       &kSiluKernel,          &kSliceKernel,
    &kSoftmaxKernel,       &kSplitKernel,         &kSqrtKernel,
    &kSquareKernel,        &kSubKernel,           &kTanhKernel,
    &kTopKGateKernel,      &kTransposeKernel,
};

}  // namespace

const Kernel& find_kernel(const Call& call) {
  for (const auto* kernel : kKernels) {
    if (kernel->name == call.op.spec().kernel && kernel->covers(call)) return *kernel;
  }
  return kMeaningKernel;
}

}  // namespace tandem::runtime

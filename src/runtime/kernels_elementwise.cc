// Elementwise functions of one or two tensors that ATen has.
#include "ops/attributes.h"
#include "runtime/aten.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

using Tensor = at::Tensor;

// Returns the kernel of a function of x; `backward` returns the gradient of x, given that of the
// result, g.
template <Tensor (*forward)(const Call&, const Tensor& x),
          Tensor (*backward)(const Call&, const Tensor& g, const Tensor& x)>
constexpr Kernel make_unary_kernel(std::string_view name) {
  return {name, [](const Call& call, std::span<const Tensor> in) { return forward(call, in[0]); },
          [](const Call& call, const BackwardInput& b) -> Gradients {
            return {backward(call, b.gradient, b.operands[0])};
          }};
}

double get_factor(const Call& call) { return call.op.get<ops::ScaleAttributes>().factor; }

Tensor square(const Call&, const Tensor& x) { return at::mul(x, x); }
Tensor square_gradient(const Call&, const Tensor& g, const Tensor& x) {
  return at::mul(g, x).mul_(2);
}
Tensor rsqrt(const Call&, const Tensor& x) { return at::rsqrt(x); }
Tensor rsqrt_gradient(const Call&, const Tensor& g, const Tensor& x) {
  return at::rsqrt(x).div_(x).mul_(g).mul_(-0.5);
}
Tensor sqrt(const Call&, const Tensor& x) { return at::sqrt(x); }
Tensor sqrt_gradient(const Call&, const Tensor& g, const Tensor& x) {
  return at::rsqrt(x).mul_(g).mul_(0.5);
}
Tensor exp(const Call&, const Tensor& x) { return at::exp(x); }
Tensor exp_gradient(const Call&, const Tensor& g, const Tensor& x) { return at::exp(x).mul_(g); }
Tensor log(const Call&, const Tensor& x) { return at::log(x); }
Tensor log_gradient(const Call&, const Tensor& g, const Tensor& x) { return at::div(g, x); }
Tensor neg(const Call&, const Tensor& x) { return at::neg(x); }
Tensor neg_gradient(const Call&, const Tensor& g, const Tensor&) { return at::neg(g); }
Tensor reciprocal(const Call&, const Tensor& x) { return at::reciprocal(x); }
Tensor reciprocal_gradient(const Call&, const Tensor& g, const Tensor& x) {
  return at::div(g, x).div_(x).neg_();
}
Tensor scale(const Call& call, const Tensor& x) { return at::mul(x, get_factor(call)); }
Tensor scale_gradient(const Call& call, const Tensor& g, const Tensor&) {
  return at::mul(g, get_factor(call));
}
Tensor identity(const Call&, const Tensor& x) { return x.clone(); }
Tensor identity_gradient(const Call&, const Tensor& g, const Tensor&) { return g; }

// --- Of two tensors -----------------------------------------------------------------------------

// Returns the gradient of operand `i`. If the operand is broadcast, it sums over the broadcast
// dimensions.
Tensor sum_to_operand(const Call& call, std::size_t i, const Tensor& gradient) {
  return at::sum_to(gradient, to_aten(call.operands[i].local));
}

Tensor sub(const Call&, std::span<const Tensor> in) { return at::sub(in[0], in[1]); }

Gradients sub_gradients(const Call& call, const BackwardInput& b) {
  Gradients out(2);
  if (b.wants(0)) out[0] = sum_to_operand(call, 0, b.gradient);
  if (b.wants(1)) out[1] = sum_to_operand(call, 1, at::neg(b.gradient));
  return out;
}

Tensor div(const Call&, std::span<const Tensor> in) { return at::div(in[0], in[1]); }

Gradients div_gradients(const Call& call, const BackwardInput& b) {
  Gradients out(2);
  const auto quotient = at::div(b.gradient, b.operands[1]);
  if (b.wants(0)) out[0] = sum_to_operand(call, 0, quotient);
  if (b.wants(1)) {
    const auto whole = at::mul(quotient, b.operands[0]).div_(b.operands[1]).neg_();
    out[1] = sum_to_operand(call, 1, whole);
  }
  return out;
}

// --- Element types ------------------------------------------------------------------------------

Tensor cast(const Call& call, std::span<const Tensor> in) {
  return in[0].to(to_aten(call.op.get<ops::Cast>().to), false, true);
}

Gradients cast_gradient(const Call& call, const BackwardInput& b) {
  return {b.gradient.to(to_aten(call.operands[0].dtype))};
}

}  // namespace

const Kernel kCastKernel = {"cast", cast, cast_gradient};
const Kernel kDivKernel = {"div", div, div_gradients};
const Kernel kExpKernel = make_unary_kernel<exp, exp_gradient>("exp");
const Kernel kIdentityKernel = make_unary_kernel<identity, identity_gradient>("identity");
const Kernel kLogKernel = make_unary_kernel<log, log_gradient>("log");
const Kernel kNegKernel = make_unary_kernel<neg, neg_gradient>("neg");
const Kernel kReciprocalKernel = make_unary_kernel<reciprocal, reciprocal_gradient>("reciprocal");
const Kernel kRsqrtKernel = make_unary_kernel<rsqrt, rsqrt_gradient>("rsqrt");
const Kernel kScaleKernel = make_unary_kernel<scale, scale_gradient>("scale");
const Kernel kSqrtKernel = make_unary_kernel<sqrt, sqrt_gradient>("sqrt");
const Kernel kSquareKernel = make_unary_kernel<square, square_gradient>("square");
const Kernel kSubKernel = {"sub", sub, sub_gradients};

}  // namespace tandem::runtime

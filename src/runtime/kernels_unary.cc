// Activations as operators of their own.
#include "runtime/activations.h"
#include "runtime/aten.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

using ops::Activation;

template <Activation act>
constexpr Kernel make_activation_kernel(std::string_view name) {
  return {name, [](const Call&, std::span<const at::Tensor> in) { return activate(act, in[0]); },
          [](const Call&, const BackwardInput& b) -> Gradients {
            constexpr bool kFromResult = has_gradient_from_result(act);
            if (!kFromResult || act == Activation::kRelu) {
              const auto& x = kFromResult && b.result.defined() ? b.result : b.operands[0];
              return {compute_activation_gradient(act, b.gradient, x)};
            }
            const auto y = b.result.defined() ? b.result : activate(act, b.operands[0]);
            return {compute_activation_gradient(act, b.gradient, y)};
          },
          [](const ops::Op&) { return has_gradient_from_result(act); }};
}

}  // namespace

const Kernel kGeluKernel = make_activation_kernel<Activation::kGelu>("gelu");
const Kernel kReluKernel = make_activation_kernel<Activation::kRelu>("relu");
const Kernel kSigmoidKernel = make_activation_kernel<Activation::kSigmoid>("sigmoid");
const Kernel kSiluKernel = make_activation_kernel<Activation::kSilu>("silu");
const Kernel kTanhKernel = make_activation_kernel<Activation::kTanh>("tanh");

const Kernel kGeluTanhKernel = {
    "gelu_tanh",
    [](const Call&, std::span<const at::Tensor> in) { return at::gelu(in[0], "tanh"); },
    [](const Call&, const BackwardInput& b) -> Gradients {
      return {at::gelu_backward(b.gradient, b.operands[0], "tanh")};
    }};

}  // namespace tandem::runtime

#include "runtime/activations.h"

#include "runtime/aten.h"

namespace tandem::runtime {

using ops::Activation;

at::Tensor activate(Activation act, const at::Tensor& x) {
  switch (act) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kSigmoid:
      return at::sigmoid(x);
    case Activation::kTanh:
      return at::tanh(x);
  }
  return x;
}

at::Tensor compute_activation_gradient(Activation act, const at::Tensor& gradient,
                                       const at::Tensor& from) {
  switch (act) {
    case Activation::kNone:
      return gradient;
    case Activation::kRelu:  // The result is positive exactly where the argument is
      return at::threshold_backward(gradient, from, 0);
    case Activation::kGelu:
      return at::gelu_backward(gradient, from);
    case Activation::kSilu:
      return at::silu_backward(gradient, from);
    case Activation::kSigmoid:
      return at::sigmoid_backward(gradient, from);
    case Activation::kTanh:
      return at::tanh_backward(gradient, from);
  }
  return gradient;
}

}  // namespace tandem::runtime

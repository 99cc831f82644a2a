// Cross entropy of logits and the indices of the correct classes. The mean is over the rows of all
// devices.
#include "runtime/aten.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

double compute_row_weight(const Call& call) {
  return 1 / static_cast<double>(call.operands[1].sizes.count());
}

at::Tensor cross_entropy_forward(const Call& call, std::span<const at::Tensor> in) {
  const auto logits = in[0].reshape({-1, in[0].size(-1)});
  const auto right = at::gather(logits, 1, in[1].reshape({-1, 1}));
  const auto all = at::logsumexp(logits, {1}, true);
  return at::sum(at::sub(all, right)).mul_(compute_row_weight(call));
}

Gradients cross_entropy_backward(const Call& call, const BackwardInput& b) {
  const auto& x = b.operands[0];
  auto g = at::_softmax(x.reshape({-1, x.size(-1)}), -1, false);
  const auto right = b.operands[1].reshape({-1, 1});
  g.scatter_add_(1, right, at::full(right.sizes(), -1.0, g.options()));
  g.mul_(at::mul(b.gradient, compute_row_weight(call)));
  return {g.view(x.sizes()), at::Tensor()};
}

}  // namespace

const Kernel kCrossEntropyKernel = {"cross_entropy", cross_entropy_forward, cross_entropy_backward};

}  // namespace tandem::runtime

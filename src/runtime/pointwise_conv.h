// Convolutions with 1 x 1 windows, computed as one matmul over the elements of all images. ATen's
// single-threaded kernels multiply image by image, which takes two to four times as long for images
// of few elements.
#pragma once

#include "runtime/kernels.h"

namespace tandem::runtime {

// Returns whether the call is such a convolution without groups. (Only for tensors on the CPU.)
bool is_pointwise(const Call& call);

// Returns the result before the activation. `in` are conv2d's operands; images are channels last.
at::Tensor compute_pointwise_preactivation(const Call& call, std::span<const at::Tensor> in);

// Gradients of the image and of the weight, if wanted. `gradient` is that of the
// result before the activation, channels last.
struct PointwiseGradients {
  at::Tensor image, weight;
};
PointwiseGradients compute_pointwise_gradients(const Call& call, const BackwardInput& b,
                                               const at::Tensor& gradient);

}  // namespace tandem::runtime

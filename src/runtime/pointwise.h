// Convolutions whose windows are single elements, as one product of all images' elements: ATen's
// single-threaded kernels multiply image by image, which for images of few elements is two to four
// times as slow.
#pragma once

#include "runtime/kernels.h"

namespace tandem::runtime {

// Is the call such a convolution, without groups? (Of tensors that the processor computes with.)
bool is_pointwise(const Call& call);

// Before the activation. `in` are conv2d's operands, of images that are channels last.
at::Tensor pointwise_sums(const Call& call, std::span<const at::Tensor> in);

// Of the image and the weight, where they are wanted. `gradient` is of the sums, channels last.
struct PointwiseGradients {
  at::Tensor image, weight;
};
PointwiseGradients pointwise_gradients(const Call& call, const BackwardInput& b,
                                       const at::Tensor& gradient);

}  // namespace tandem::runtime

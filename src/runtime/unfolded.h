// Convolutions of few elements with many channels, as one product of all windows: the weight, which
// is most of what they read, is taken as it lies in memory. oneDNN brings it, and its gradient,
// into an order of its own and back, which takes longer than the product and copies of both.
#pragma once

#include <array>

#include "runtime/kernels.h"

namespace tandem::runtime {

// Are all windows together, without groups, smaller than the weight? (Of tensors that the processor
// computes with.)
bool is_unfolded(const Call& call);

// Before the activation. `image` is the first operand in its frame, padding included, channels
// last; the bias may be undefined.
at::Tensor unfolded_sums(const Call& call, const at::Tensor& image, const at::Tensor& weight,
                         const at::Tensor& bias);

// Of the weight. `gradient` is of the sums, channels last.
at::Tensor unfolded_weight_gradient(const Call& call, const at::Tensor& image,
                                    const at::Tensor& gradient);

// Of the image in its frame, which has so many rows and columns.
at::Tensor unfolded_image_gradient(const Call& call, std::array<std::int64_t, 2> frame,
                                   const at::Tensor& weight, const at::Tensor& gradient);

}  // namespace tandem::runtime

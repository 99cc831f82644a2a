// Convolutions of few elements with many channels, computed as one matmul over all windows. Most of
// what they read is the weight, which is used in its order in memory. oneDNN would reorder the
// weight and its gradient into its own layout and back. That takes longer than the matmul and the
// copies it needs.
#pragma once

#include <array>

#include "runtime/kernels.h"

namespace tandem::runtime {

// Returns whether the call has no groups and all its windows together are smaller than the weight.
// (Only for tensors on the CPU.)
bool is_unfolded(const Call& call);

// Returns the result before the activation. `image` is the first operand with its padding, channels
// last; `bias` may be undefined.
at::Tensor compute_unfolded_preactivation(const Call& call, const at::Tensor& image,
                                          const at::Tensor& weight, const at::Tensor& bias);

// Returns the weight's gradient. `gradient` is that of the result before the
// activation, channels last.
at::Tensor compute_unfolded_weight_gradient(const Call& call, const at::Tensor& image,
                                            const at::Tensor& gradient);

// Returns the gradient of the padded image, whose rows and columns are `frame`.
at::Tensor compute_unfolded_image_gradient(const Call& call, std::array<std::int64_t, 2> frame,
                                           const at::Tensor& weight, const at::Tensor& gradient);

}  // namespace tandem::runtime

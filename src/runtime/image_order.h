// The order in memory of the elements of tensors that move between processes.
//
// Kernels store images channels last, and images are sent in that order. A step with permuted
// dimensions moves them as it moves rows, without a copy. Which tensors are images follows from the
// program alone. Strides cannot show this: they differ between processes if one of them gets zeros,
// or a part for which another kernel is chosen. Sender and receiver would then disagree.
#pragma once

#include <functional>
#include <vector>

#include "lower/program.h"
#include "machine/reshard.h"
#include "runtime/tensor.h"

namespace tandem::runtime {

class ImageOrder {
 public:
  explicit ImageOrder(const lower::Program& program);

  [[nodiscard]] bool is_image(lower::BufferId id) const { return images_[id.index()]; }

 private:
  std::vector<bool> images_;  // One per buffer
};

// Permutes the dimensions of an image from [n, c, h, w] to their order in memory, [n, h, w, c];
// to_channels_second permutes them back.
at::Tensor to_channels_last(const at::Tensor& image);
at::Tensor to_channels_second(const at::Tensor& reordered);
Shape to_channels_last(const Shape& sizes);
machine::ReshardStep to_channels_last(machine::ReshardStep step);

}  // namespace tandem::runtime

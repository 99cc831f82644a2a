// In which order the elements of a tensor that moves between processes lie in memory.
//
// Kernels make images channels last, so images are sent as they lie: with their dimensions
// reordered a step moves them as it moves rows, and nothing is copied. What an image is follows
// from the program alone. By the strides that a process sees it could not be told: they differ
// between processes where one gets zeros, or a part with which another kernel works, and sender and
// receiver would not agree.
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
  std::vector<bool> images_;  // by buffer
};

// Of an image, dimensions in the order in which they lie in memory; and back.
at::Tensor channels_last(const at::Tensor& image);
at::Tensor channels_second(const at::Tensor& reordered);
Shape channels_last(const Shape& sizes);
machine::ReshardStep channels_last(machine::ReshardStep step);

}  // namespace tandem::runtime

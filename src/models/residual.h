// ResNet-50 and ResNeXt-50: four stages of bottleneck blocks, each three convolutions beside a
// residual. As torchvision has them, a stage's stride is in its first block's 3x3 convolution.
#pragma once

#include "models/convolutional.h"

namespace tandem::models {

// `cardinality` groups of `group_width` filters in the first stage's 3x3 convolutions; they double
// with every stage.
struct Residual {
  std::vector<std::int64_t> blocks;  // by stage
  std::int64_t width = 64;           // filters of the stem; a first stage's block returns 4 x
  std::int64_t cardinality = 1;
  std::int64_t group_width = 64;
  std::int64_t device_batch = 64;
};

graph::Graph build_residual(const Residual& shape, const Settings& settings, std::int64_t batch,
                            DType dtype);
// As the artifact of Unity (OSDI'22) has it.
graph::Graph build_residual_artifact(const Residual& shape, const Settings& settings,
                                     std::int64_t batch, DType dtype);

}  // namespace tandem::models

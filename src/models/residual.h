// ResNet-50 and ResNeXt-50: four stages of bottleneck blocks, each three convolutions with a
// residual. Like torchvision, they have a stage's stride in its first block's 3x3 convolution.
#pragma once

#include "models/convolutional.h"

namespace tandem::models {

// A residual network. The first stage's 3x3 convolutions have `cardinality` groups of `group_width`
// filters, which double with every stage.
struct Residual {
  std::vector<std::int64_t> blocks;  // by stage
  std::int64_t width = 64;           // filters of the stem; blocks of the first stage return 4 x
  std::int64_t cardinality = 1;
  std::int64_t group_width = 64;
  std::int64_t device_batch = 64;
};

graph::Graph build_residual(const Residual& shape, const Settings& settings, std::int64_t batch,
                            DType dtype);
// Builds the version of the artifact of Unity (OSDI'22).
graph::Graph build_residual_artifact(const Residual& shape, const Settings& settings,
                                     std::int64_t batch, DType dtype);

}  // namespace tandem::models

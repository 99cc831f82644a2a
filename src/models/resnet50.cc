// ResNet-50 (He et al., 2015, arXiv:1512.03385): stages of 3, 4, 6 and 3 blocks. The batch is 32
// images a device as in Goyal et al., 2017 (arXiv:1706.02677).
#include "models/residual.h"

namespace tandem::models {

namespace {

constexpr std::int64_t kResnetDeviceBatch = 32;

std::vector<Hyperparameter> resnet50_hyperparameters() {
  auto out = convolutional_hyperparameters(
      {224, 64, "filters of the first convolution", kResnetDeviceBatch});
  out.push_back({"blocks", "3-4-6-3", "blocks of each stage"});
  return out;
}

}  // namespace

const ModelSpec kResnet50 = {
    .name = "resnet50",
    .doc = "ResNet-50 (arXiv:1512.03385)",
    .hyperparameters = resnet50_hyperparameters(),
    .batch_per_device = kResnetDeviceBatch,
    .train_batch = 4,
    .build =
        [](const Settings& s, std::int64_t batch, DType dtype) {
          const auto width = s.size("width");
          return build_residual({.blocks = s.sizes("blocks"),
                                 .width = width,
                                 .cardinality = 1,
                                 .group_width = width,
                                 .device_batch = kResnetDeviceBatch},
                                s, batch, dtype);
        },
};

}  // namespace tandem::models

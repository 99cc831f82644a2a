// ResNeXt-50 32x4d (Xie et al., 2016, arXiv:1611.05431): ResNet-50 with its 3x3 convolutions in 32
// groups of 4 filters. Unity (OSDI'22) trains 64 images a device. Its artifact omits residuals and
// norms, and its convolutions have biases.
#include "models/residual.h"

namespace tandem::models {

namespace {

constexpr std::int64_t kResnextDeviceBatch = 64;

std::vector<Hyperparameter> resnext50_hyperparameters() {
  auto out = convolutional_hyperparameters(
      {224, 64, "filters of the first convolution", kResnextDeviceBatch});
  out.push_back({"blocks", "3-4-6-3", "blocks of each stage"});
  out.push_back({"groups", "32", "groups of the 3x3 convolutions"});
  out.push_back({"group_width", "4", "filters per group in the first stage"});
  out.push_back(variant_hyperparameter("no residuals, no norms, convolutions with biases"));
  return out;
}

}  // namespace

const ModelSpec kResnext50 = {
    .name = "resnext50",
    .doc = "ResNeXt-50 32x4d (arXiv:1611.05431)",
    .hyperparameters = resnext50_hyperparameters(),
    .batch_per_device = kResnextDeviceBatch,
    .train_batch = 4,
    .build =
        [](const Settings& s, std::int64_t batch, DType dtype) {
          const Residual shape{.blocks = s.sizes("blocks"),
                               .width = s.size("width"),
                               .cardinality = s.size("groups"),
                               .group_width = s.size("group_width"),
                               .device_batch = kResnextDeviceBatch};
          return s.is_artifact() ? build_residual_artifact(shape, s, batch, dtype)
                                 : build_residual(shape, s, batch, dtype);
        },
};

}  // namespace tandem::models

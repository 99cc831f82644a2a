#include "models/convolutional.h"

#include <fmt/format.h>

#include "ops/registry.h"

namespace tandem::models {

namespace {

// Returns the number of samples that are normalized together. Statistics over a whole large batch
// would tie all devices together, and no framework does that. They are taken over the published
// batch of one device, wherever those samples are now.
std::int64_t find_norm_group(const Settings& settings, std::int64_t batch,
                             std::int64_t device_batch) {
  const auto group = settings.size("bn_group", 0);
  if (group == 0) return batch % device_batch == 0 ? device_batch : 0;
  if (batch % group != 0) {
    settings.fail(fmt::format("batch {} is not a multiple of bn_group {}", batch, group));
  }
  return group;
}

}  // namespace

std::vector<Hyperparameter> convolutional_hyperparameters(const ConvolutionalDefaults& d) {
  const auto group_doc = fmt::format(
      "samples per batch norm group; 0: {0} if the batch is a multiple of {0}, else the whole "
      "batch",
      d.device_batch);
  return {{"image", fmt::format("{}", d.image), "height and width of an image"},
          {"classes", "1000", "classes"},
          {"width", fmt::format("{}", d.width), d.width_doc},
          {"bn_group", "0", group_doc}};
}

Convolutions::Convolutions(graph::GraphBuilder& graph, const Settings& settings, std::int64_t batch,
                           DType dtype, double eps, std::int64_t device_batch)
    : block_(graph, dtype),
      norm_{.eps = eps, .group = find_norm_group(settings, batch, device_batch)},
      batch_(batch),
      image_(settings.size("image")),
      classes_(settings.size("classes")) {}

NodeId Convolutions::image() const { return block_.input("image", {batch_, 3, image_, image_}); }

NodeId Convolutions::conv(NodeId x, std::int64_t filters, const ConvOptions& options,
                          std::string_view name, bool activate) const {
  x = block_.conv(x, filters, options, name);
  x = norm(x, fmt::format("{}_norm", name));
  return activate ? relu(x, fmt::format("{}_relu", name)) : x;
}

NodeId Convolutions::plain_conv(NodeId x, std::int64_t filters, const ConvOptions& options,
                                std::string_view name, bool activate) const {
  x = block_.conv(x, filters, options, name, Bias::kInside);
  return activate ? relu(x, fmt::format("{}_relu", name)) : x;
}

NodeId Convolutions::relu(NodeId x, std::string_view name) const {
  return block_.add(ops::kRelu, {x}, name);
}

NodeId Convolutions::sum(std::initializer_list<NodeId> parts, std::string_view name) const {
  return block_.add(ops::kAdd, parts, name);
}

NodeId Convolutions::max_pool(NodeId x, const ops::Pool2d& pool, std::string_view name) const {
  return block_.add(ops::kMaxPool2d, pool, {x}, name);
}

NodeId Convolutions::average_pool(NodeId x, const ops::Pool2d& pool, std::string_view name) const {
  return block_.add(ops::kAvgPool2d, pool, {x}, name);
}

NodeId Convolutions::logits(NodeId x) const {
  x = block_.add(ops::kGlobalAvgPool, {x}, "pooled");
  return block_.linear(x, classes_, "logits", Bias::kInside);
}

}  // namespace tandem::models

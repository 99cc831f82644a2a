#include "models/convolutional.h"

#include <fmt/format.h>

#include "ops/registry.h"

namespace tandem::models {

namespace {

// Statistics over the whole of a large batch would tie all devices together, and no framework does
// that: they are taken over groups of samples.
constexpr std::int64_t kNormGroup = 64;

std::int64_t norm_group(const Settings& settings, std::int64_t batch) {
  const auto group = settings.size("bn_group", 0);
  if (group == 0) return batch % kNormGroup == 0 ? kNormGroup : 0;
  if (batch % group != 0) {
    settings.fail(fmt::format("batch {} is not a multiple of bn_group {}", batch, group));
  }
  return group;
}

}  // namespace

std::vector<Hyperparameter> convolutional_hyperparameters(std::int64_t image, std::int64_t width,
                                                          const std::string& width_doc) {
  return {{"image", fmt::format("{}", image), "rows and columns of an image"},
          {"classes", "1000", "classes"},
          {"width", fmt::format("{}", width), width_doc},
          {"bn_group", "0",
           "samples normalised together; 0: 64 if the batch is a multiple of 64, else all"}};
}

Convolutions::Convolutions(graph::GraphBuilder& graph, const Settings& settings, std::int64_t batch,
                           DType dtype, double eps)
    : block_(graph, dtype),
      norm_{.eps = eps, .group = norm_group(settings, batch)},
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

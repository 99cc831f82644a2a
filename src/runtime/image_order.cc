#include "runtime/image_order.h"

#include <algorithm>
#include <array>

#include "ops/registry.h"
#include "runtime/aten.h"

namespace tandem::runtime {

namespace {

constexpr std::array<std::size_t, 4> kChannelsLast = {0, 2, 3, 1};
constexpr std::array<std::size_t, 4> kPlaceInMemory = {0, 3, 1, 2};  // Place of each dimension

// Returns whether the operator stores its result as an image, whatever it reads.
bool makes_images(const ops::Op& op) {
  static constexpr std::array kMakers = {&ops::kConv2d, &ops::kAvgPool2d, &ops::kMaxPool2d,
                                         &ops::kBatchNorm, &ops::kBatchNormalize};
  return std::ranges::any_of(kMakers, [&](const auto* spec) { return op.is(*spec); });
}

// Returns whether the operator stores its result row-major.
bool makes_rows(const ops::Op& op) { return op.is(ops::kReshape) || op.is(ops::kTranspose); }

// Marks the weights of convolutions. (With 1 x 1 windows both orders are the same.)
void mark_convolution_weights(const graph::Graph& graph, std::vector<bool>& images) {
  for (const auto id : graph.ids()) {
    if (!graph.node(id).op.is(ops::kConv2d)) continue;
    auto weight = graph.inputs(id)[1];
    while (graph.node(weight).op.role() == ops::Role::kParallel) weight = graph.inputs(weight)[0];
    const auto& sizes = graph.node(weight).type.shape.sizes;
    if (!graph::is_weight(graph.node(weight)) || sizes[2] * sizes[3] == 1) continue;
    images[weight.index()] = true;
  }
}

}  // namespace

ImageOrder::ImageOrder(const lower::Program& program) {
  const auto& graph = program.pcg;
  std::vector<bool> images(graph.size());
  mark_convolution_weights(graph, images);
  for (const auto id : graph.ids()) {
    const auto& node = graph.node(id);
    if (node.type.shape.sizes.rank() != 4 || makes_rows(node.op)) continue;
    const bool of_images = std::ranges::any_of(
        graph.inputs(id), [&](graph::NodeId input) { return images[input.index()]; });
    if (of_images || makes_images(node.op)) images[id.index()] = true;
  }
  for (const auto& buffer : program.buffers) {
    images_.push_back(images[buffer.node.index()] && buffer.sizes.rank() == 4);
  }
}

at::Tensor to_channels_last(const at::Tensor& image) { return image.permute({0, 2, 3, 1}); }

at::Tensor to_channels_second(const at::Tensor& reordered) {
  return reordered.permute({0, 3, 1, 2});
}

Shape to_channels_last(const Shape& sizes) {
  Shape out = sizes;
  for (std::size_t d = 0; d < kChannelsLast.size(); ++d) out[d] = sizes[kChannelsLast[d]];
  return out;
}

machine::ReshardStep to_channels_last(machine::ReshardStep step) {
  step.from_dim = kPlaceInMemory[step.from_dim];
  step.to_dim = kPlaceInMemory[step.to_dim];
  return step;
}

}  // namespace tandem::runtime

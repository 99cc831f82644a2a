#include "models/residual.h"

#include <fmt/format.h>

namespace tandem::models {

namespace {

struct Widths {
  std::int64_t inner, out, stride;
};

NodeId add_bottleneck(const Convolutions& c, NodeId x, const Widths& w, std::int64_t cardinality) {
  const ops::Sizes stride = {w.stride, w.stride};
  auto y = c.conv(x, w.inner, {}, "conv1");
  y = c.conv(y, w.inner,
             {.kernel = {3, 3}, .stride = stride, .padding = {1, 1}, .groups = cardinality},
             "conv2");
  y = c.conv(y, w.out, {}, "conv3", false);
  const bool same = w.stride == 1 && c.channels(x) == w.out;
  const auto residual = same ? x : c.conv(x, w.out, {.stride = stride}, "shortcut", false);
  return c.relu(c.sum({y, residual}, "sum"), "relu");
}

NodeId add_artifact_bottleneck(const Convolutions& c, NodeId x, const Widths& w,
                               std::int64_t cardinality) {
  x = c.plain_conv(x, w.inner, {}, "conv1", true);
  x = c.plain_conv(
      x, w.inner,
      {.kernel = {3, 3}, .stride = {w.stride, w.stride}, .padding = {1, 1}, .groups = cardinality},
      "conv2", true);
  return c.plain_conv(x, w.out, {}, "conv3", false);
}

// Calls block(convolutions, x, widths) for every block and returns the last result.
template <class F>
NodeId add_stages(const Residual& shape, const Convolutions& c, NodeId x, std::int64_t out,
                  const F& block) {
  auto inner = shape.cardinality * shape.group_width;
  for (std::size_t s = 0; s < shape.blocks.size(); ++s) {
    const auto stage = c.scope(fmt::format("stage{}", s + 1));
    for (std::int64_t i = 0; i < shape.blocks[s]; ++i) {
      const std::int64_t stride = s > 0 && i == 0 ? 2 : 1;
      x = block(stage.scope(fmt::format("block{}", i + 1)), x, Widths{inner, out, stride});
    }
    inner *= 2;
    out *= 2;
  }
  return x;
}

constexpr double kEps = 1e-5;
const ConvOptions& get_stem_options() {
  static const ConvOptions kStem = {.kernel = {7, 7}, .stride = {2, 2}, .padding = {3, 3}};
  return kStem;
}
const ops::Pool2d& get_stem_pool_options() {
  static const ops::Pool2d kPool = {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  return kPool;
}

}  // namespace

graph::Graph build_residual(const Residual& shape, const Settings& settings, std::int64_t batch,
                            DType dtype) {
  graph::GraphBuilder graph(settings.model());
  const Convolutions c(graph, settings, batch, dtype, kEps, shape.device_batch);
  auto x = c.conv(c.image(), shape.width, get_stem_options(), "stem");
  x = c.max_pool(x, get_stem_pool_options(), "stem_pool");
  x = add_stages(shape, c, x, 4 * shape.width, [&](const auto& block, NodeId in, const Widths& w) {
    return add_bottleneck(block, in, w, shape.cardinality);
  });
  return graph.finish({c.block().classification_loss(c.logits(x))});
}

graph::Graph build_residual_artifact(const Residual& shape, const Settings& settings,
                                     std::int64_t batch, DType dtype) {
  graph::GraphBuilder graph(settings.model());
  const Convolutions c(graph, settings, batch, dtype, kEps, shape.device_batch);
  auto x = c.plain_conv(c.image(), shape.width, get_stem_options(), "stem", true);
  x = c.max_pool(x, get_stem_pool_options(), "stem_pool");
  x = add_stages(shape, c, x, 2 * shape.cardinality * shape.group_width,
                 [&](const auto& block, NodeId in, const Widths& w) {
                   return add_artifact_bottleneck(block, in, w, shape.cardinality);
                 });
  x = c.relu(x, "relu");
  return graph.finish({c.block().classification_loss(c.logits(x))});
}

}  // namespace tandem::models

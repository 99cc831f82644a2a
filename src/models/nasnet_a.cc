// NASNet-A (Zoph et al., 2017, arXiv:1707.07012, figure 4 and appendix A): a stem with two
// reduction cells, then three stages of `cells` normal cells with a reduction cell between. "6 @
// 4032" has 6 cells a stage and 4032 = 24 x 168 channels at the end. A cell reads the last cell's
// result and the one before it, which skips the reductions between the stages; five pairs of
// branches are summed and concatenated. A separable convolution is ReLU, a depthwise and a
// pointwise convolution and a norm, applied twice.
//
// Details that the paper omits are those of Keras's version. Keras halves an image by taking every
// second row and column before a 1x1 convolution; here the convolution has the stride. The
// auxiliary head and drop path are omitted. The batch is 32 images a device as in the paper
// (appendix A.2).
#include <fmt/format.h>

#include "models/convolutional.h"
#include "ops/registry.h"

namespace tandem::models {

namespace {

constexpr std::int64_t kNasnetDeviceBatch = 32;

// The inputs of a cell.
struct History {
  NodeId last;
  NodeId before;
};

// Returns padding for a window that halves the image, so that it is centred on every second
// element.
ops::Sizes compute_halving_padding(std::int64_t size, std::int64_t kernel) {
  const auto before = kernel / 2 - (size % 2 == 0 ? 1 : 0);
  return {before, before, kernel / 2, kernel / 2};
}

class Nasnet {
 public:
  Nasnet(graph::GraphBuilder& graph, const Settings& settings, std::int64_t batch, DType dtype)
      : root_(graph, settings, batch, dtype, 1e-3, kNasnetDeviceBatch), settings_(settings) {}

  NodeId run() {
    constexpr std::int64_t kSmallest = 32;
    if (const auto image = settings_.size("image"); image < kSmallest) {
      settings_.fail(fmt::format("image {} is smaller than {}", image, kSmallest));
    }
    const auto width = settings_.size("width");
    if (width % 4 != 0) settings_.fail(fmt::format("width {} is not a multiple of 4", width));
    auto x = root_.conv(root_.image(), settings_.size("stem"), {.kernel = {3, 3}, .stride = {2, 2}},
                        "stem", false);
    // The first cell reads its input twice, because there is nothing before it.
    History seen = {x, x};
    seen = {reduction_cell(root_.scope("stem_cell1"), {x, x}, width / 4, true), x};
    seen = {reduction_cell(root_.scope("stem_cell2"), seen, width / 2, false), seen.last};
    for (std::int64_t stage = 0; stage < 3; ++stage) {
      const auto filters = width << stage;
      if (stage > 0) {
        const auto c = root_.scope(fmt::format("reduction{}", stage));
        seen.last = reduction_cell(c, seen, filters, false);
      }
      for (std::int64_t i = 0; i < settings_.size("cells"); ++i) {
        const auto c = root_.scope(fmt::format("stage{}.cell{}", stage + 1, i + 1));
        seen = {normal_cell(c, seen, filters), seen.last};
      }
    }
    const auto logits = root_.logits(root_.relu(seen.last, "relu"));
    return root_.block().classification_loss(logits);
  }

 private:
  // Adds ReLU, a convolution of size 1 and a norm.
  static NodeId squeeze(const Convolutions& c, NodeId x, std::int64_t filters,
                        std::string_view name) {
    x = c.relu(x, fmt::format("{}_relu", name));
    return c.conv(x, filters, {}, name, false);
  }

  // Brings the earlier result `x` to the image size of `like` and to `filters` channels.
  static NodeId adjust(const Convolutions& c, NodeId x, NodeId like, std::int64_t filters) {
    const auto& b = c.block();
    if (c.rows(x) == c.rows(like)) {
      return c.channels(x) == filters ? x : squeeze(c, x, filters, "before");
    }
    const auto rectified = c.relu(x, "before_relu");
    const auto even = b.conv(rectified, filters / 2, {.stride = {2, 2}}, "before_even");
    auto odd = rectified;
    for (std::int64_t axis : {2, 3}) {
      const auto size = b.shape(odd)[static_cast<std::size_t>(axis)] - 1;
      odd = b.add(ops::kSlice, ops::Slice{.axis = axis, .begin = 1, .size = size}, {odd},
                  fmt::format("before_{}", axis == 2 ? "rows" : "columns"));
    }
    odd = b.conv(odd, filters / 2, {.stride = {2, 2}, .padding = {0, 0, 1, 1}}, "before_odd");
    return c.norm(b.concat({even, odd}, 1, "before_concat"), "before_norm");
  }

  static NodeId separable_conv(const Convolutions& c, NodeId x, std::int64_t filters,
                               std::int64_t kernel, std::int64_t stride) {
    for (std::int64_t i = 1; i <= 2; ++i) {
      ConvOptions depthwise{
          .kernel = {kernel, kernel}, .padding = {kernel / 2, kernel / 2}, .groups = c.channels(x)};
      if (i == 1 && stride == 2) {
        depthwise.stride = {2, 2};
        depthwise.padding = compute_halving_padding(c.rows(x), kernel);
      }
      x = c.relu(x, fmt::format("relu{}", i));
      x = c.block().conv(x, c.channels(x), depthwise, fmt::format("depthwise{}", i));
      x = c.conv(x, filters, {}, fmt::format("pointwise{}", i), false);
    }
    return x;
  }

  static NodeId average_pool(const Convolutions& c, NodeId x, std::string_view name) {
    return c.average_pool(
        x, {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}, .count_padding = false}, name);
  }

  static NodeId normal_cell(const Convolutions& c, const History& seen, std::int64_t filters) {
    const auto p = adjust(c, seen.before, seen.last, filters);
    const auto h = squeeze(c, seen.last, filters, "now");
    const auto x1 = c.sum({separable_conv(c.scope("left1"), h, filters, 5, 1),
                           separable_conv(c.scope("right1"), p, filters, 3, 1)},
                          "sum1");
    const auto x2 = c.sum({separable_conv(c.scope("left2"), p, filters, 5, 1),
                           separable_conv(c.scope("right2"), p, filters, 3, 1)},
                          "sum2");
    const auto x3 = c.sum({average_pool(c, h, "left3"), p}, "sum3");
    const auto x4 = c.sum({average_pool(c, p, "left4"), average_pool(c, p, "right4")}, "sum4");
    const auto x5 = c.sum({separable_conv(c.scope("left5"), h, filters, 3, 1), h}, "sum5");
    return c.block().concat({p, x1, x2, x3, x4, x5}, 1, "concat");
  }

  static NodeId reduction_cell(const Convolutions& c, const History& seen, std::int64_t filters,
                               bool first) {
    const auto p = first ? seen.before : adjust(c, seen.before, seen.last, filters);
    const auto h = squeeze(c, seen.last, filters, "now");
    const ops::Pool2d half{
        .kernel = {3, 3}, .stride = {2, 2}, .padding = compute_halving_padding(c.rows(h), 3)};
    const auto x1 = c.sum({separable_conv(c.scope("left1"), h, filters, 5, 2),
                           separable_conv(c.scope("right1"), p, filters, 7, 2)},
                          "sum1");
    const auto x2 =
        c.sum({c.max_pool(h, half, "left2"), separable_conv(c.scope("right2"), p, filters, 7, 2)},
              "sum2");
    const auto x3 = c.sum(
        {c.average_pool(h, half, "left3"), separable_conv(c.scope("right3"), p, filters, 5, 2)},
        "sum3");
    const auto x4 = c.sum({x2, average_pool(c, x1, "left4")}, "sum4");
    const auto x5 =
        c.sum({separable_conv(c.scope("left5"), x1, filters, 3, 1), c.max_pool(h, half, "right5")},
              "sum5");
    return c.block().concat({x2, x3, x4, x5}, 1, "concat");
  }

  Convolutions root_;
  const Settings& settings_;
};

std::vector<Hyperparameter> nasnet_a_hyperparameters() {
  auto out = convolutional_hyperparameters(
      {331, 168, "filters of the first stage, 4032 / 24", kNasnetDeviceBatch});
  out.push_back({"cells", "6", "normal cells per stage"});
  out.push_back({"stem", "96", "filters of the first convolution"});
  return out;
}

}  // namespace

const ModelSpec kNasnetA = {
    .name = "nasnet_a",
    .doc = "NASNet-A 6@4032 (arXiv:1707.07012)",
    .hyperparameters = nasnet_a_hyperparameters(),
    .batch_per_device = kNasnetDeviceBatch,
    .train_batch = 2,
    .build =
        [](const Settings& s, std::int64_t batch, DType dtype) {
          graph::GraphBuilder graph(s.model());
          return graph.finish({Nasnet(graph, s, batch, dtype).run()});
        },
};

}  // namespace tandem::models

// Inception-v3 (Szegedy et al., 2015, arXiv:1512.00567) with torchvision's shapes: a stem, then
// blocks A A A B C C C C D E E. With aux=true there is a second head after the last C, whose loss
// counts 0.4. Unity (OSDI'22) trains 64 images a device. Its artifact's convolutions have biases
// and no norms; only those of the stem and the blocks A have ReLU. The stem pads the last
// convolution, and there are 10 classes.
#include <fmt/format.h>

#include "models/convolutional.h"
#include "ops/registry.h"

namespace tandem::models {

namespace {

constexpr std::int64_t kWidth = 32;  // published filters of the first convolution
constexpr std::int64_t kInceptionDeviceBatch = 64;
constexpr double kAuxiliaryWeight = 0.4;

class Inception {
 public:
  Inception(graph::GraphBuilder& graph, const Settings& settings, std::int64_t batch, DType dtype)
      : root_(graph, settings, batch, dtype, 1e-3, kInceptionDeviceBatch),
        settings_(settings),
        width_(settings.size("width")),
        artifact_(settings.is_artifact()) {}

  NodeId run() {
    const bool aux = settings_.choice("aux", {"false", "true"}) == "true";
    const std::int64_t least = aux ? 299 : 75;
    if (const auto image = settings_.size("image"); image < least) {
      settings_.fail(fmt::format("image {} is smaller than {}{}", image, least,
                                 aux ? ", which the auxiliary head needs" : ""));
    }
    auto x = stem(root_.image());
    for (auto pooled : {32, 64, 64}) x = block_a(next_block(), x, pooled);
    x = block_b(next_block(), x);
    for (auto inner : {128, 160, 160, 192}) x = block_c(next_block(), x, inner);
    const auto middle = x;
    x = block_d(next_block(), x);
    for (int i = 0; i < 2; ++i) x = block_e(next_block(), x);
    const auto logits = root_.logits(x);
    if (!aux) return root_.block().classification_loss(logits);
    const auto& block = root_.block();
    const auto main = block.classification_loss(logits, "main_loss");
    const auto side =
        block.classification_loss(auxiliary_head(root_.scope("aux"), middle), "aux_loss");
    const auto weighted =
        block.add(ops::kScale, ops::ScaleAttributes{kAuxiliaryWeight}, {side}, "aux_loss_weighted");
    return block.add(ops::kAdd, {main, weighted}, "loss");
  }

 private:
  // Returns the number of `published` filters scaled by the width.
  [[nodiscard]] std::int64_t scale_filters(std::int64_t published) const {
    if (published * width_ % kWidth != 0) {
      settings_.fail(fmt::format("width {} gives {} filters, not an integer ({} * width / {})",
                                 width_, static_cast<double>(published * width_) / kWidth,
                                 published, kWidth));
    }
    return published * width_ / kWidth;
  }

  Convolutions next_block() { return root_.scope(fmt::format("mixed{}", ++blocks_)); }

  [[nodiscard]] NodeId conv(const Convolutions& c, NodeId x, std::int64_t published,
                            const ConvOptions& options, std::string_view name,
                            bool artifact_activates = false) const {
    return artifact_ ? c.plain_conv(x, scale_filters(published), options, name, artifact_activates)
                     : c.conv(x, scale_filters(published), options, name);
  }

  // Returns options of a convolution that keeps the image's size; a kernel may be square, a row or
  // a column.
  static ConvOptions same_padding(std::int64_t rows, std::int64_t columns) {
    return {.kernel = {rows, columns}, .padding = {rows / 2, columns / 2}};
  }
  static ConvOptions valid_padding(std::int64_t stride) {
    return {.kernel = {3, 3}, .stride = {stride, stride}};
  }
  static NodeId shrink(const Convolutions& c, NodeId x, std::string_view name) {
    return c.max_pool(x, {.kernel = {3, 3}, .stride = {2, 2}}, name);
  }
  static NodeId smooth(const Convolutions& c, NodeId x) {
    return c.average_pool(x, {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}}, "pool");
  }

  NodeId stem(NodeId x) {
    const auto c = root_.scope("stem");
    x = conv(c, x, 32, valid_padding(2), "conv1", true);
    x = conv(c, x, 32, valid_padding(1), "conv2", true);
    x = conv(c, x, 64, same_padding(3, 3), "conv3", true);
    x = shrink(c, x, "pool1");
    x = conv(c, x, 80, {}, "conv4", true);
    x = conv(c, x, 192, artifact_ ? same_padding(3, 3) : valid_padding(1), "conv5", true);
    return shrink(c, x, "pool2");
  }

  [[nodiscard]] NodeId block_a(const Convolutions& c, NodeId x, std::int64_t pooled) const {
    const auto one = conv(c, x, 64, {}, "one", true);
    auto five = conv(c, x, 48, {}, "five1", true);
    five = conv(c, five, 64, same_padding(5, 5), "five2", true);
    auto three = conv(c, x, 64, {}, "three1", true);
    three = conv(c, three, 96, same_padding(3, 3), "three2", true);
    three = conv(c, three, 96, same_padding(3, 3), "three3", true);
    const auto pool = conv(c, smooth(c, x), pooled, {}, "pool_conv", true);
    return c.block().concat({one, five, three, pool}, 1, "concat");
  }

  [[nodiscard]] NodeId block_b(const Convolutions& c, NodeId x) const {
    const auto three = conv(c, x, 384, valid_padding(2), "three");
    auto twice = conv(c, x, 64, {}, "twice1");
    twice = conv(c, twice, 96, same_padding(3, 3), "twice2");
    twice = conv(c, twice, 96, valid_padding(2), "twice3");
    return c.block().concat({three, twice, shrink(c, x, "pool")}, 1, "concat");
  }

  [[nodiscard]] NodeId block_c(const Convolutions& c, NodeId x, std::int64_t inner) const {
    const auto one = conv(c, x, 192, {}, "one");
    auto seven = conv(c, x, inner, {}, "seven1");
    seven = conv(c, seven, inner, same_padding(1, 7), "seven2");
    seven = conv(c, seven, 192, same_padding(7, 1), "seven3");
    auto twice = conv(c, x, inner, {}, "twice1");
    twice = conv(c, twice, inner, same_padding(7, 1), "twice2");
    twice = conv(c, twice, inner, same_padding(1, 7), "twice3");
    twice = conv(c, twice, inner, same_padding(7, 1), "twice4");
    twice = conv(c, twice, 192, same_padding(1, 7), "twice5");
    const auto pool = conv(c, smooth(c, x), 192, {}, "pool_conv");
    return c.block().concat({one, seven, twice, pool}, 1, "concat");
  }

  [[nodiscard]] NodeId block_d(const Convolutions& c, NodeId x) const {
    auto three = conv(c, x, 192, {}, "three1");
    three = conv(c, three, 320, valid_padding(2), "three2");
    auto seven = conv(c, x, 192, {}, "seven1");
    seven = conv(c, seven, 192, same_padding(1, 7), "seven2");
    seven = conv(c, seven, 192, same_padding(7, 1), "seven3");
    seven = conv(c, seven, 192, valid_padding(2), "seven4");
    return c.block().concat({three, seven, shrink(c, x, "pool")}, 1, "concat");
  }

  [[nodiscard]] NodeId block_e(const Convolutions& c, NodeId x) const {
    const auto one = conv(c, x, 320, {}, "one");
    const auto three = conv(c, x, 384, {}, "three1");
    const auto three_row = conv(c, three, 384, same_padding(1, 3), "three_row");
    const auto three_column = conv(c, three, 384, same_padding(3, 1), "three_column");
    auto twice = conv(c, x, 448, {}, "twice1");
    twice = conv(c, twice, 384, same_padding(3, 3), "twice2");
    const auto twice_row = conv(c, twice, 384, same_padding(1, 3), "twice_row");
    const auto twice_column = conv(c, twice, 384, same_padding(3, 1), "twice_column");
    const auto pool = conv(c, smooth(c, x), 192, {}, "pool_conv");
    return c.block().concat({one, three_row, three_column, twice_row, twice_column, pool}, 1,
                            "concat");
  }

  [[nodiscard]] NodeId auxiliary_head(const Convolutions& c, NodeId x) const {
    x = c.average_pool(x, {.kernel = {5, 5}, .stride = {3, 3}}, "pool");
    x = conv(c, x, 128, {}, "conv1");
    x = conv(c, x, 768, {.kernel = {5, 5}}, "conv2");
    return c.logits(x);
  }

  Convolutions root_;
  const Settings& settings_;
  std::int64_t width_;
  bool artifact_;
  int blocks_ = 0;
};

std::vector<Hyperparameter> inception_v3_hyperparameters() {
  auto out = convolutional_hyperparameters(
      {299, kWidth, "filters of the first convolution; all others scale with it",
       kInceptionDeviceBatch});
  for (auto& h : out) {
    if (h.key == "classes") h.artifact = "10";
  }
  out.push_back({"aux", "false", "auxiliary head: true or false"});
  out.push_back(variant_hyperparameter("no norms, convolutions with biases, 10 classes"));
  return out;
}

}  // namespace

const ModelSpec kInceptionV3 = {
    .name = "inception_v3",
    .doc = "Inception-v3 (arXiv:1512.00567)",
    .hyperparameters = inception_v3_hyperparameters(),
    .batch_per_device = kInceptionDeviceBatch,
    .train_batch = 2,
    .build =
        [](const Settings& s, std::int64_t batch, DType dtype) {
          graph::GraphBuilder graph(s.model());
          return graph.finish({Inception(graph, s, batch, dtype).run()});
        },
};

}  // namespace tandem::models

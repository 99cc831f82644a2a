// Common parts of convolutional classifiers: an image, convolutions with batch norms, a pooled
// head.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/blocks.h"
#include "models/model.h"

namespace tandem::models {

struct ConvolutionalDefaults {
  std::int64_t image, width;
  std::string width_doc;
  std::int64_t device_batch;  // published batch per device: samples normalized together
};

// Returns "image", "classes", "width" and "bn_group" with these defaults.
std::vector<Hyperparameter> convolutional_hyperparameters(const ConvolutionalDefaults& defaults);

// A Block with the settings that all convolutions of a network share.
class Convolutions {
 public:
  Convolutions(graph::GraphBuilder& graph, const Settings& settings, std::int64_t batch,
               DType dtype, double eps, std::int64_t device_batch);

  [[nodiscard]] Convolutions scope(std::string_view name) const {
    auto out = *this;
    out.block_ = block_.scope(name);
    return out;
  }
  [[nodiscard]] const Block& block() const { return block_; }
  [[nodiscard]] std::int64_t channels(NodeId x) const { return block_.shape(x)[1]; }
  [[nodiscard]] std::int64_t rows(NodeId x) const { return block_.shape(x)[2]; }

  // Adds the input [batch 3 image image].
  [[nodiscard]] NodeId image() const;
  // Adds the nodes "NAME", "NAME_norm" and "NAME_relu".
  [[nodiscard]] NodeId conv(NodeId x, std::int64_t filters, const ConvOptions& options,
                            std::string_view name, bool activate = true) const;
  // Adds a convolution of the artifact of Unity (OSDI'22): with a bias, without a norm.
  [[nodiscard]] NodeId plain_conv(NodeId x, std::int64_t filters, const ConvOptions& options,
                                  std::string_view name, bool activate) const;
  [[nodiscard]] NodeId norm(NodeId x, std::string_view name) const {
    return block_.batch_norm(x, norm_, name);
  }
  [[nodiscard]] NodeId relu(NodeId x, std::string_view name) const;
  [[nodiscard]] NodeId sum(std::initializer_list<NodeId> parts, std::string_view name) const;
  [[nodiscard]] NodeId max_pool(NodeId x, const ops::Pool2d& pool, std::string_view name) const;
  [[nodiscard]] NodeId average_pool(NodeId x, const ops::Pool2d& pool, std::string_view name) const;
  // Adds the mean over the image and a dense layer to the classes.
  [[nodiscard]] NodeId logits(NodeId x) const;

 private:
  Block block_;
  ops::BatchNorm norm_;
  std::int64_t batch_, image_, classes_;
};

}  // namespace tandem::models

// DLRM (Naumov et al., 2019) as Unity evaluates it: embedding tables and a bottom MLP,
// concatenated, then a top MLP. Criteo Kaggle has 26 categorical and 13 dense features.
#include "models/model.h"
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::models {

namespace {

class DlrmBuilder {
 public:
  DlrmBuilder(const Settings& settings, std::int64_t batch, DType dtype)
      : b_("dlrm"), settings_(settings), batch_(batch), dtype_(dtype) {}

  graph::Graph run() {
    const auto dense = settings_.size("dense");
    auto x = b_.input("dense", {batch_, dense}, dtype_);
    std::vector<graph::NodeId> features = {mlp(x, dense, settings_.sizes("bottom"), "bottom")};
    for (std::int64_t t = 0; t < settings_.size("tables"); ++t) features.push_back(bag(t));
    const auto joined =
        b_.add(ops::make_op(ops::kConcat, ops::Concat{.axis = 1}), features, "features");
    const auto width = b_.node(joined).type.shape.sizes[1];
    const auto out = mlp(joined, width, settings_.sizes("top"), "top");
    const auto target = b_.input("target", b_.node(out).type.shape, dtype_);
    return b_.finish({b_.add(ops::kMse, {out, target}, "loss")});
  }

 private:
  graph::NodeId bag(std::int64_t table) {
    const auto rows = settings_.size("rows");
    const auto index = b_.input(fmt::format("index{}", table), {batch_, settings_.size("bag")},
                                DType::kInt64, rows);
    const auto w = b_.weight(fmt::format("table{}", table), {rows, settings_.size("dim")}, dtype_);
    return b_.add(ops::kEmbeddingBag, {index, w}, fmt::format("bag{}", table));
  }

  graph::NodeId mlp(graph::NodeId x, std::int64_t width, const std::vector<std::int64_t>& sizes,
                    const std::string& name) {
    for (std::size_t layer = 0; layer < sizes.size(); ++layer) {
      const auto w =
          b_.weight(fmt::format("w_{}{}", name, layer + 1), {sizes[layer], width}, dtype_);
      x = b_.add(ops::kLinear, {x, w}, fmt::format("{}{}", name, layer + 1));
      if (layer + 1 < sizes.size())
        x = b_.add(ops::kRelu, {x}, fmt::format("{}_relu{}", name, layer + 1));
      width = sizes[layer];
    }
    return x;
  }

  graph::GraphBuilder b_;
  const Settings& settings_;
  std::int64_t batch_;
  DType dtype_;
};

}  // namespace

const ModelSpec kDlrm = {
    .name = "dlrm",
    .doc = "DLRM (arXiv:1906.00091) with Criteo Kaggle's 26 tables and 13 dense features",
    .hyperparameters = {{"tables", "26", "embedding tables"},
                        {"rows", "1000000", "rows a table"},
                        {"dim", "64", "embedding width"},
                        {"dense", "13", "dense features"},
                        {"bag", "1", "lookups a table and sample"},
                        {"bottom", "512-256-64", "bottom MLP's layer widths"},
                        {"top", "512-256-1", "top MLP's layer widths"}},
    .batch_per_device = 1024,
    .train_batch = 256,
    .build = [](const Settings& s, std::int64_t batch,
                DType dtype) { return DlrmBuilder(s, batch, dtype).run(); },
};

}  // namespace tandem::models

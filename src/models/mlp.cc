// Unity's MLP (OSDI'22): 16 dense layers of 8192 with ReLU between them. Its artifact has two
// towers of 8 on inputs of 1024 features, whose sum is classified into 8192 classes.
#include <fmt/format.h>

#include "models/blocks.h"
#include "models/model.h"
#include "ops/registry.h"

namespace tandem::models {

namespace {

NodeId build_tower(const Block& b, const Settings& settings, std::int64_t batch) {
  const auto layers = settings.size("layers");
  auto x = b.input("x", {batch, settings.size("inputs")});
  for (std::int64_t layer = 1; layer <= layers; ++layer) {
    const bool last = layer == layers;
    const auto next = last ? settings.size("outputs") : settings.size("hidden");
    const auto w = b.weight(fmt::format("w{}", layer), {next, b.width(x)});
    x = b.add(ops::kLinear, {x, w}, fmt::format("linear{}", layer));
    if (!last) x = b.add(ops::kRelu, {x}, fmt::format("relu{}", layer));
  }
  return x;
}

graph::Graph build_mlp(const Settings& settings, std::int64_t batch, DType dtype) {
  graph::GraphBuilder graph(settings.model());
  const Block b(graph, dtype);
  if (!settings.is_artifact()) {
    return graph.finish({b.regression_loss(build_tower(b, settings, batch))});
  }
  const auto left = build_tower(b.scope("tower1"), settings, batch);
  const auto right = build_tower(b.scope("tower2"), settings, batch);
  return graph.finish({b.classification_loss(b.add(ops::kAdd, {left, right}, "logits"))});
}

}  // namespace

const ModelSpec kMlp = {
    .name = "mlp",
    .doc = "MLP of Unity's evaluation (OSDI'22)",
    .hyperparameters = {{"layers", "16", "dense layers", "8"},
                        {"hidden", "8192", "width between layers"},
                        {"inputs", "8192", "input features", "1024"},
                        {"outputs", "8192", "output features"},
                        variant_hyperparameter("sum of two towers of 8 layers with 1024 inputs")},
    .batch_per_device = 256,
    .train_batch = 64,
    .build = build_mlp,
};

}  // namespace tandem::models

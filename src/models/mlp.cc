// Unity's MLP (OSDI'22): 16 dense layers of 8192, a rectifier between them.
#include "models/model.h"
#include "ops/registry.h"

namespace tandem::models {

namespace {

graph::Graph build(const Settings& settings, std::int64_t batch, DType dtype) {
  const auto layers = settings.size("layers");
  graph::GraphBuilder b("mlp");
  auto width = settings.size("inputs");
  auto x = b.input("x", {batch, width}, dtype);
  for (std::int64_t layer = 1; layer <= layers; ++layer) {
    const bool last = layer == layers;
    const auto next = last ? settings.size("outputs") : settings.size("hidden");
    const auto w = b.weight(fmt::format("w{}", layer), {next, width}, dtype);
    x = b.add(ops::kLinear, {x, w}, fmt::format("linear{}", layer));
    if (!last) x = b.add(ops::kRelu, {x}, fmt::format("relu{}", layer));
    width = next;
  }
  const auto target = b.input("target", {batch, width}, dtype);
  return b.finish({b.add(ops::kMse, {x, target}, "loss")});
}

}  // namespace

const ModelSpec kMlp = {
    .name = "mlp",
    .doc = "multi-layer perceptron of Unity's evaluation (OSDI'22)",
    .hyperparameters = {{"layers", "16", "dense layers"},
                        {"hidden", "8192", "width between layers"},
                        {"inputs", "8192", "input features"},
                        {"outputs", "8192", "output features"}},
    .batch_per_device = 256,
    .train_batch = 64,
    .build = build,
};

}  // namespace tandem::models

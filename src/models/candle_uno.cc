// CANDLE-Uno, which predicts how tumours respond to drugs, in the form that Unity (OSDI'22)
// evaluates. Towers of 8 dense layers of 4192 process the cell line (942 features) and two drugs'
// descriptors (5270) and fingerprints (2048). Their results and two doses are concatenated and pass
// through 4 more dense layers. The paper gives no sizes, so both variants use those of its
// artifact; layers have no bias.
#include <fmt/format.h>

#include "models/blocks.h"
#include "models/model.h"
#include "ops/registry.h"

namespace tandem::models {

namespace {

graph::Graph build_candle_uno(const Settings& settings, std::int64_t batch, DType dtype) {
  (void)settings.is_artifact();  // rejects other variants
  const auto hidden = settings.size("hidden");
  const auto layers = [&](std::string_view key) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(settings.size(key)), hidden);
  };
  const auto widths = settings.sizes("features");
  graph::GraphBuilder graph(settings.model());
  const Block b(graph, dtype);
  std::vector<NodeId> features;
  for (std::int64_t t = 0; t < settings.size("towers"); ++t) {
    const auto tower = b.scope(fmt::format("tower{}", t + 1));
    const auto x = tower.input("x", {batch, widths[static_cast<std::size_t>(t) % widths.size()]});
    features.push_back(tower.mlp(x, layers("layers"), "dense", ops::kRelu, &ops::kRelu));
  }
  for (std::int64_t d = 0; d < settings.size("doses"); ++d) {
    features.push_back(b.input(fmt::format("dose{}", d + 1), {batch, 1}));
  }
  auto x = b.concat(features, 1, "features");
  x = b.mlp(x, layers("top_layers"), "top", ops::kRelu, &ops::kRelu);
  return graph.finish({b.regression_loss(b.linear(x, 1, "response"))});
}

}  // namespace

const ModelSpec kCandleUno = {
    .name = "candle_uno",
    .doc = "CANDLE-Uno of Unity's evaluation (OSDI'22)",
    .hyperparameters = {{"towers", "5", "towers of dense layers"},
                        {"layers", "8", "dense layers per tower"},
                        {"hidden", "4192", "width of every layer"},
                        {"features", "942-5270-2048-5270-2048", "input features of each tower"},
                        {"doses", "2", "inputs with one feature and no tower"},
                        {"top_layers", "4", "dense layers after the towers"},
                        variant_hyperparameter("the same network")},
    .batch_per_device = 256,
    .train_batch = 16,
    .build = build_candle_uno,
};

}  // namespace tandem::models

// DLRM (Naumov et al., 2019) in the form that Unity evaluates: embedding tables and a bottom MLP,
// concatenated, then a top MLP. Criteo Kaggle has 26 categorical and 13 dense features. The
// artifact of Unity (OSDI'22) has 4 tables, 4 dense features, MLPs of 64-64 and 64-2, ReLU after
// every layer of the bottom MLP, and a sigmoid at the end.
#include "models/recommendation.h"
#include "ops/registry.h"

namespace tandem::models {

namespace {

graph::Graph build_dlrm(const Settings& settings, std::int64_t batch, DType dtype) {
  const bool artifact = settings.is_artifact();
  graph::GraphBuilder graph(settings.model());
  const Block b(graph, dtype);
  const auto dense = b.input("dense", {batch, settings.size("dense")});
  std::vector<NodeId> features = {b.mlp(dense, settings.sizes("bottom"), "bottom", ops::kRelu,
                                        artifact ? &ops::kRelu : nullptr)};
  for (auto bag : add_embedding_bags(b, settings, batch, 1)) features.push_back(bag);
  const auto joined = b.concat(features, 1, "features");
  return graph.finish({b.regression_loss(b.mlp(joined, settings.sizes("top"), "top", ops::kRelu,
                                               artifact ? &ops::kSigmoid : nullptr))});
}

}  // namespace

const ModelSpec kDlrm = {
    .name = "dlrm",
    .doc = "DLRM (arXiv:1906.00091) with Criteo Kaggle's 26 tables and 13 dense features",
    .hyperparameters = {{"tables", "26", "embedding tables", "4"},
                        {"rows", "1000000", "rows per table"},
                        {"dim", "64", "embedding width"},
                        {"dense", "13", "dense features", "4"},
                        {"bag", "1", "lookups per table and sample"},
                        {"bottom", "512-256-64", "layer widths of the bottom MLP", "64-64"},
                        {"top", "512-256-1", "layer widths of the top MLP", "64-2"},
                        variant_hyperparameter("4 tables, 4 dense features and smaller MLPs")},
    .batch_per_device = 1024,
    .train_batch = 256,
    .build = build_dlrm,
};

}  // namespace tandem::models

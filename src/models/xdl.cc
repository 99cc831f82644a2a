// XDL (Jiang et al., 2019, "XDL: An Industrial Deep Learning Framework for High-dimensional Sparse
// Data") in the form that Unity (OSDI'22) evaluates: embedding tables and a top MLP, no dense
// features. The paper gives no sizes, so both variants use those of its artifact.
#include "models/recommendation.h"
#include "ops/registry.h"

namespace tandem::models {

namespace {

graph::Graph build_xdl(const Settings& settings, std::int64_t batch, DType dtype) {
  (void)settings.is_artifact();  // rejects other variants
  graph::GraphBuilder graph(settings.model());
  const Block b(graph, dtype);
  const auto joined = b.concat(add_embedding_bags(b, settings, batch, 0), 1, "features");
  const auto out = b.mlp(joined, settings.sizes("top"), "top", ops::kRelu, &ops::kSigmoid);
  return graph.finish({b.regression_loss(out)});
}

}  // namespace

const ModelSpec kXdl = {
    .name = "xdl",
    .doc = "XDL recommendation model of Unity's evaluation (OSDI'22)",
    .hyperparameters = {{"tables", "4", "embedding tables"},
                        {"rows", "1000000", "rows per table"},
                        {"dim", "64", "embedding width"},
                        {"bag", "1", "lookups per table and sample"},
                        {"top", "256-256-2", "layer widths of the MLP"},
                        variant_hyperparameter("the same network")},
    .batch_per_device = 1024,
    .train_batch = 256,
    .build = build_xdl,
};

}  // namespace tandem::models

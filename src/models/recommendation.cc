#include "models/recommendation.h"

#include <fmt/format.h>

#include "ops/registry.h"
#include "term/index_map.h"

namespace tandem::models {

std::vector<NodeId> add_embedding_bags(const Block& b, const Settings& settings, std::int64_t batch,
                                       std::int64_t other_inputs) {
  std::vector<NodeId> out;
  const auto rows = settings.size("rows");
  const auto tables = settings.size("tables");
  const auto most = static_cast<std::int64_t>(term::IndexMap::kMaxInputs) - other_inputs;
  if (tables > most) {
    settings.fail(fmt::format("'tables' is {}, but may be at most {}", tables, most));
  }
  for (std::int64_t t = 0; t < tables; ++t) {
    const auto index = b.indices(fmt::format("index{}", t), {batch, settings.size("bag")}, rows);
    const auto table = b.weight(fmt::format("table{}", t), {rows, settings.size("dim")});
    out.push_back(b.add(ops::kEmbeddingBag, {index, table}, fmt::format("bag{}", t)));
  }
  return out;
}

namespace {

constexpr NormOptions kProductionNorm = {};

class ProductionDlrm {
 public:
  ProductionDlrm(graph::GraphBuilder& graph, const Settings& settings, Interaction interaction,
                 std::int64_t batch, DType dtype)
      : b_(graph, dtype), settings_(settings), interaction_(interaction), batch_(batch) {}

  NodeId run() {
    const auto dense = b_.input("dense", {batch_, settings_.size("dense")});
    const auto bottom = b_.mlp(dense, settings_.sizes("bottom"), "bottom", ops::kRelu, &ops::kRelu);
    auto sparse = add_table_mean();
    if (interaction_ == Interaction::kTransformer) sparse = add_transformer(sparse);
    const auto features = b_.concat({bottom, sparse}, 1, "features");
    const auto top = interaction_ == Interaction::kExperts
                         ? add_experts(features)
                         : b_.mlp(features, settings_.sizes("top"), "top", ops::kRelu, &ops::kRelu);
    return b_.regression_loss(b_.linear(top, 1, "click"));
  }

 private:
  // Returns [batch dim]. The norm is over all tables' rows of a sample.
  NodeId add_table_mean() {
    const auto tables = settings_.size("tables");
    const auto rows = settings_.size("rows");
    const auto dim = settings_.size("dim");
    const auto index = b_.indices("indices", {batch_, tables, settings_.size("bag")}, rows);
    const auto weights = b_.weight("tables", {tables, rows, dim});
    auto x = b_.add(ops::kEmbeddingBags, {index, weights}, "bags");
    x = b_.norm(b_.reshape(x, {batch_, tables * dim}, "bags_in_a_row"), kProductionNorm,
                "bags_norm");
    x = b_.reshape(x, {batch_, tables, dim}, "bags_normal");
    return b_.add(ops::kReduceMean, ops::Reduction{.axes = {1}}, {x}, "sparse");
  }

  // Returns [batch hidden], the mean of the tokens that leave the transformer.
  NodeId add_transformer(NodeId x) {
    const auto seq = settings_.size("seq");
    const auto hidden = settings_.size("hidden");
    const TransformerOptions layer{
        .attention = read_attention_options(settings_),
        .feed_forward = {.width = settings_.size("ffn"), .activation = &ops::kRelu},
        .norm = kProductionNorm};
    x = b_.reshape(b_.linear(x, seq * hidden, "to_tokens"), {batch_, seq, hidden}, "tokens");
    for (std::int64_t i = 0; i < settings_.size("layers"); ++i) {
      x = b_.scope(fmt::format("l{}", i)).transformer_layer(x, layer);
    }
    return b_.add(ops::kReduceMean, ops::Reduction{.axes = {1}}, {x}, "mixed_tokens");
  }

  // Adds the mixture of experts; every expert is a top MLP.
  NodeId add_experts(NodeId x) {
    auto [y, gates] = b_.dispatch(x, read_expert_options(settings_));
    std::int64_t layer = 0;
    for (auto next : settings_.sizes("top")) {
      y = b_.expert_linear(y, next, fmt::format("top{}", ++layer));
      y = b_.add(ops::kRelu, {y}, fmt::format("top_relu{}", layer));
    }
    return b_.add(ops::kMoeCombine, {gates, y}, "combined");
  }

  Block b_;
  const Settings& settings_;
  Interaction interaction_;
  std::int64_t batch_;
};

}  // namespace

std::vector<Hyperparameter> production_dlrm_hyperparameters(const ProductionDlrmSizes& s,
                                                            Interaction interaction) {
  const auto text = [](std::int64_t v) { return fmt::format("{}", v); };
  const auto mlp = fmt::format("{}x{}", s.mlp_layers, s.mlp_width);
  std::vector<Hyperparameter> out = {{"tables", text(s.tables), "embedding tables"},
                                     {"rows", text(s.rows), "rows per table"},
                                     {"dim", text(s.dim), "embedding width"},
                                     {"dense", text(s.mlp_width), "dense features"},
                                     {"bag", text(s.bag), "lookups per table and sample"},
                                     {"bottom", mlp, "layer widths of the bottom MLP"},
                                     {"top", mlp, "layer widths of the top MLP"}};
  if (interaction == Interaction::kTransformer) {
    out.insert(out.end(),
               {{"layers", "4", "transformer layers of the interaction"},
                {"hidden", "512", "width of a token"},
                {"heads", "4", "attention heads"},
                {"ffn", "2048", "width of the feed-forward block"},
                {"seq", "80", "tokens per sample"},
                {"attention", "plain", "plain (scores, softmax, values) or fused (one operator)"}});
  }
  if (interaction == Interaction::kExperts) {
    for (auto& h : expert_hyperparameters(16, 2)) out.push_back(h);
  }
  return out;
}

graph::Graph build_production_dlrm(const Settings& settings, Interaction interaction,
                                   std::int64_t batch, DType dtype) {
  graph::GraphBuilder graph(settings.model());
  return graph.finish({ProductionDlrm(graph, settings, interaction, batch, dtype).run()});
}

}  // namespace tandem::models

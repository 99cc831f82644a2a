#include "strategies/layer_kinds.h"

#include <algorithm>

#include "ops/registry.h"

namespace tandem::strategies {

namespace {

using graph::NodeId;

constexpr std::size_t kSequenceRank = 3;  // batch, sequence, features

bool is_any_of(const ops::Op& op, std::initializer_list<const ops::OpSpec*> specs) {
  return std::ranges::any_of(specs, [&](const auto* spec) { return op.is(*spec); });
}

// Returns whether a weight operand only shifts or scales the layer before it.
bool is_elementwise(const ops::Op& op) {
  return is_any_of(op, {&ops::kAdd, &ops::kSub, &ops::kMul, &ops::kDiv});
}

bool is_norm(const ops::Op& op) {
  return is_any_of(op, {&ops::kLayerNorm, &ops::kRmsNorm, &ops::kGroupNorm, &ops::kBatchNorm,
                        &ops::kBatchNormalize});
}

class Classifier {
 public:
  explicit Classifier(const graph::Graph& model)
      : model_(model),
        kinds_(model.size(), LayerKind::kDense),
        parameter_(model.size()),
        inside_experts_(model.size()) {
    for (auto id : model.ids()) {
      const auto& node = model.node(id);
      has_attention_ = has_attention_ || node.op.is(ops::kAttention) ||
                       (node.op.is(ops::kSoftmax) && node.type.shape.rank() >= kSequenceRank);
      if (node.op.is(ops::kEmbedding)) words_.push_back(sizes(model.inputs(id)[1]));
    }
  }

  std::vector<LayerKind> run() {
    for (auto id : model_.ids()) {
      const auto inputs = model_.inputs(id);
      const auto n = id.index();
      parameter_[n] = is_weight(model_.node(id)) ||
                      (!inputs.empty() && std::ranges::all_of(inputs, [&](NodeId i) {
                        return bool{parameter_[i.index()]};
                      }));
      if (model_.node(id).op.role() != ops::Role::kSource && !parameter_[n]) classify(id);
    }
    take_kinds_of_users();
    return std::move(kinds_);
  }

 private:
  [[nodiscard]] const Shape& sizes(NodeId id) const { return model_.node(id).type.shape.sizes; }

  void classify(NodeId id) {
    const auto& op = model_.node(id).op;
    const auto inputs = model_.inputs(id);
    auto& kind = kinds_[id.index()];
    const bool receives =
        std::ranges::any_of(inputs, [&](NodeId i) { return bool{inside_experts_[i.index()]}; });
    inside_experts_[id.index()] =
        op.is(ops::kMoeDispatch) || (receives && !op.is(ops::kMoeCombine));
    if (receives || op.is(ops::kMoeDispatch)) {
      kind = LayerKind::kExperts;
    } else if (is_any_of(op, {&ops::kEmbeddingBag, &ops::kEmbeddingBags})) {
      kind = LayerKind::kEmbedding;
    } else if (op.is(ops::kEmbedding)) {
      kind = has_attention_ ? LayerKind::kWordEmbedding : LayerKind::kEmbedding;
    } else if (const auto weight = find_first_weight(inputs); weight && !is_elementwise(op)) {
      kind = find_layer_kind(id, *weight);
      // Operators on embedding rows stay embeddings until a layer reads them.
      if (kind == LayerKind::kDense && is_norm(op)) kind = find_input_kind(inputs);
    } else {
      kind = find_input_kind(inputs);
    }
  }

  [[nodiscard]] std::optional<NodeId> find_first_weight(std::span<const NodeId> inputs) const {
    for (auto i : inputs) {
      if (parameter_[i.index()]) return i;
    }
    return std::nullopt;
  }

  // Returns the kind of a layer with this weight. A language model's last matmul is with a matrix
  // like its embedding table, often that table itself.
  [[nodiscard]] LayerKind find_layer_kind(NodeId id, NodeId weight) const {
    if (!has_attention_ || sizes(id).rank() < kSequenceRank) return LayerKind::kDense;
    return std::ranges::find(words_, sizes(weight)) != words_.end() ? LayerKind::kWordEmbedding
                                                                    : LayerKind::kTransformer;
  }

  // Returns the kind of the first operand that is not an embedding, if there is one.
  [[nodiscard]] LayerKind find_input_kind(std::span<const NodeId> inputs) const {
    std::optional<LayerKind> table;
    for (auto i : inputs) {
      if (model_.node(i).op.role() == ops::Role::kSource || parameter_[i.index()]) continue;
      const auto kind = kinds_[i.index()];
      if (kind != LayerKind::kEmbedding && kind != LayerKind::kWordEmbedding) return kind;
      if (!table) table = kind;
    }
    return table.value_or(LayerKind::kDense);
  }

  // Gives sources, and nodes that depend on weights alone, the kind of their first reader.
  void take_kinds_of_users() {
    const auto consumers = model_.consumers();
    for (std::size_t n = model_.size(); n-- > 0;) {
      const bool source = model_.node(NodeId(n)).op.role() == ops::Role::kSource;
      if ((source || parameter_[n]) && !consumers[n].empty()) {
        kinds_[n] = kinds_[consumers[n][0].index()];
      }
    }
  }

  const graph::Graph& model_;
  std::vector<LayerKind> kinds_;
  std::vector<bool> parameter_;  // depends on weights alone
  std::vector<bool> inside_experts_;
  bool has_attention_ = false;
  std::vector<Shape> words_;  // shapes of vocabulary embedding tables
};

}  // namespace

std::string_view name(LayerKind kind) {
  switch (kind) {
    case LayerKind::kEmbedding:
      return "embedding";
    case LayerKind::kDense:
      return "dense";
    case LayerKind::kTransformer:
      return "transformer";
    case LayerKind::kExperts:
      return "experts";
    case LayerKind::kWordEmbedding:
      return "word_embedding";
  }
  CHECK(false);
}

std::optional<LayerKind> parse_layer_kind(std::string_view text) {
  const auto at = std::ranges::find(kLayerKinds, text, [](LayerKind k) { return name(k); });
  return at == kLayerKinds.end() ? std::nullopt : std::optional(*at);
}

std::vector<LayerKind> find_layer_kinds(const graph::Graph& model) {
  return Classifier(model).run();
}

std::int64_t count_tokens(const graph::Graph& model) {
  const auto kinds = find_layer_kinds(model);
  std::int64_t most = 0;
  for (auto id : model.ids()) {
    const bool of_words = kinds[id.index()] == LayerKind::kWordEmbedding;
    if (!of_words || !model.node(id).op.is(ops::kEmbedding)) continue;
    most = std::max(most, model.node(model.inputs(id)[0]).type.shape.sizes.count());
  }
  return most;
}

}  // namespace tandem::strategies

// Building blocks of networks: what a paper draws as one box and a graph holds as several primitive
// nodes. A block stands in a graph under a prefix, "l3." or "stage2.block3."; blocks that repeat
// are built node for node alike, every weight right before its first use, so that only the number
// in the prefix differs. Used by the built-in networks and by importers.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "models/model.h"
#include "ops/attributes.h"

namespace tandem::models {

using graph::NodeId;

// Where the bias of a product is added. `kApart` is a node of its own: a product that is split over
// what it sums leaves partial sums, and those must be summed up before a bias is added.
enum class Bias : std::uint8_t { kNone, kInside, kApart };

enum class NormKind : std::uint8_t { kLayer, kRms };

struct NormOptions {
  NormKind kind = NormKind::kLayer;
  double eps = 1e-5;
  bool plain = false;  // RMS: operator by operator in fp32, not one
};

// Multi-head attention; with fewer key and value heads than query heads, grouped-query attention.
struct AttentionOptions {
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;    // a divisor of `heads`
  std::int64_t head_width = 0;  // 0: the input's width / heads
  bool bias = false;
  bool causal = false;
  bool fused = false;                    // one `attention` node, not scores, softmax and mix
  bool wide = false;                     // not fused: the softmax in fp32
  bool dropout = false;                  // of the probabilities, as in training GPT-2 and GPT-3
  std::optional<double> rope_base = {};  // rotary positions
  // So many tokens of every sequence have been seen: their keys and values are inputs, to which
  // those of the tokens given are appended.
  std::int64_t cache = 0;
};

// `activation` must be elementwise. A gated block has a third matrix, whose product the activated
// one is multiplied with (SwiGLU where the activation is silu).
struct FeedForwardOptions {
  std::int64_t width = 1;
  const ops::OpSpec* activation = nullptr;
  bool gated = false;
  bool bias = false;
};

// Every token goes to `active` of `experts` feed-forward blocks.
struct ExpertOptions {
  std::int64_t experts = 1;
  std::int64_t active = 1;
  // The fullest expert's tokens over the average. 1 is a perfect balance, which training aims at
  // and does not reach.
  double imbalance = 1;
};

// A layer of a transformer: attention, then a feed-forward block, or experts; each with a norm and
// a residual.
struct TransformerOptions {
  AttentionOptions attention;
  FeedForwardOptions feed_forward;
  std::optional<ExpertOptions> experts = {};
  NormOptions norm;
  bool norm_first = true;  // else after the residual's sum
  bool dropout = false;    // of what attention and the feed-forward block add
};

// Sizes are rows, columns; padding is that, or top, left, bottom, right.
struct ConvOptions {
  ops::Sizes kernel = {1, 1};
  ops::Sizes stride = {1, 1};
  ops::Sizes padding = {0, 0};
  std::int64_t groups = 1;
};

// Cheap to copy; the graph outlives it.
class Block {
 public:
  Block(graph::GraphBuilder& graph, DType dtype, std::string prefix = "")
      : graph_(&graph), dtype_(dtype), prefix_(std::move(prefix)) {}

  // A block inside: its nodes' names begin with this one's prefix and "name.".
  [[nodiscard]] Block in(std::string_view name) const {
    return {*graph_, dtype_, fmt::format("{}{}.", prefix_, name)};
  }
  [[nodiscard]] std::string at(std::string_view name) const {
    return fmt::format("{}{}", prefix_, name);
  }
  [[nodiscard]] const Shape& shape(NodeId id) const { return graph_->node(id).type.shape.sizes; }
  // The size of the last dimension.
  [[nodiscard]] std::int64_t width(NodeId id) const { return shape(id)[shape(id).rank() - 1]; }

  // Nodes.
  [[nodiscard]] NodeId input(std::string_view name, const Shape& shape) const;
  [[nodiscard]] NodeId indices(std::string_view name, const Shape& shape, std::int64_t below) const;
  [[nodiscard]] NodeId weight(std::string_view name, const Shape& shape) const;
  NodeId add(const ops::OpSpec& spec, std::initializer_list<NodeId> inputs,
             std::string_view name) const {
    return graph_->add(spec, inputs, at(name));
  }
  template <class Attributes>
  NodeId add(const ops::OpSpec& spec, Attributes attributes, std::span<const NodeId> inputs,
             std::string_view name) const {
    return graph_->add(ops::make_op(spec, std::move(attributes)), inputs, at(name));
  }
  template <class Attributes>
  NodeId add(const ops::OpSpec& spec, Attributes attributes, std::initializer_list<NodeId> inputs,
             std::string_view name) const {
    return add(spec, std::move(attributes), std::span(inputs.begin(), inputs.size()), name);
  }
  NodeId contract(NodeId lhs, NodeId rhs, std::string_view index, std::string_view name,
                  double scale = 1) const;
  NodeId reshape(NodeId x, const Shape& shape, std::string_view name) const;
  NodeId concat(const std::vector<NodeId>& parts, std::int64_t axis, std::string_view name) const;

  // A tenth of the elements is dropped, others in every such node.
  NodeId dropout(NodeId x, std::string_view name) const;

  // Dense layers. Weights are "w_NAME" and "b_NAME".
  NodeId linear(NodeId x, std::int64_t width, std::string_view name, Bias bias = Bias::kNone) const;
  // A layer of every width, `between` them the activation and at the end `last`, if any. Layers
  // are "NAME1", "NAME2", …
  NodeId mlp(NodeId x, const std::vector<std::int64_t>& widths, std::string_view name,
             const ops::OpSpec& between, const ops::OpSpec* last = nullptr) const;
  NodeId norm(NodeId x, const NormOptions& options, std::string_view name) const;

  // Transformers, on [batch sequence width].
  // Rows of a table of `vocabulary` rows for the input "tokens" [batch sequence]; the table may
  // have `padding` rows more, which nothing looks up.
  struct Embedding {
    NodeId rows;
    NodeId table;
  };
  [[nodiscard]] Embedding embedding(std::string_view name, const Shape& indices,
                                    std::int64_t vocabulary, std::int64_t width,
                                    std::int64_t padding = 0) const;
  // Adds rows of a learned table of `positions` rows, from `first` on.
  [[nodiscard]] NodeId add_positions(NodeId x, std::int64_t positions,
                                     std::int64_t first = 0) const;
  [[nodiscard]] NodeId attention(NodeId x, const AttentionOptions& options) const {
    return attention(x, x, x, options);
  }
  [[nodiscard]] NodeId attention(NodeId query, NodeId key, NodeId value,
                                 const AttentionOptions& options) const;
  [[nodiscard]] NodeId feed_forward(NodeId x, const FeedForwardOptions& options) const;
  [[nodiscard]] NodeId mixture_of_experts(NodeId x, const FeedForwardOptions& expert,
                                          const ExpertOptions& options) const;
  // Sends [batch sequence width] to experts: [experts batch sequence width], and the gates. Works
  // without a sequence, too.
  struct Dispatched {
    NodeId tokens;
    NodeId gates;
  };
  [[nodiscard]] Dispatched dispatch(NodeId x, const ExpertOptions& options) const;
  // A product with a matrix of every expert's own.
  NodeId expert_linear(NodeId x, std::int64_t width, std::string_view name) const;
  [[nodiscard]] NodeId transformer_layer(NodeId x, const TransformerOptions& options) const;

  // Convolutions, on [batch channels rows columns].
  NodeId conv(NodeId x, std::int64_t filters, const ConvOptions& options, std::string_view name,
              Bias bias = Bias::kNone) const;
  NodeId batch_norm(NodeId x, const ops::BatchNorm& options, std::string_view name) const;

  // Losses against an input "target", which is made by the first that asks for it.
  // The mean cross-entropy of [... classes] against class numbers [...].
  [[nodiscard]] NodeId classification_loss(NodeId logits, std::string_view name = "loss") const;
  // The same operator by operator, in fp32.
  [[nodiscard]] NodeId plain_classification_loss(NodeId logits) const;
  [[nodiscard]] NodeId regression_loss(NodeId prediction) const;

 private:
  [[nodiscard]] NodeId widened(NodeId x, std::string_view name) const;
  [[nodiscard]] NodeId narrowed(NodeId x, std::string_view name) const;
  [[nodiscard]] NodeId plain_rms_norm(NodeId x, NodeId scale, double eps,
                                      std::string_view name) const;
  [[nodiscard]] NodeId target_of(NodeId logits) const;
  NodeId project(NodeId x, std::int64_t heads, std::int64_t width, bool bias,
                 std::string_view name) const;
  NodeId mix(NodeId q, NodeId k, NodeId v, const AttentionOptions& options) const;

  graph::GraphBuilder* graph_;
  DType dtype_;
  std::string prefix_;
};

// From the hyperparameters "heads", "kv_heads" (where there is one), "experts", ...; UserError
// where they are impossible: "hidden 8 is not a multiple of heads 3".
AttentionOptions attention_options(const Settings& settings);
ExpertOptions expert_options(const Settings& settings);
std::vector<Hyperparameter> expert_hyperparameters(std::int64_t experts, std::int64_t active);
// For one with rotary positions, once they are chosen.
void check_rope(const Settings& settings, const AttentionOptions& options);

}  // namespace tandem::models

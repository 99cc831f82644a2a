// Building blocks of networks. A paper draws such a block as one box; a graph holds it as several
// primitive nodes. A block's nodes have names with a prefix, such as "l3." or "stage2.block3.".
// Repeated blocks are built node for node in the same way, every weight right before its first use,
// so only the number in the prefix differs. The built-in networks and the importers use them.
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

// Location of a matmul's bias. `kApart` makes it a node of its own: a matmul that is split over its
// summed dimension leaves partial sums, which must be reduced before a bias is added.
enum class Bias : std::uint8_t { kNone, kInside, kApart };

enum class NormKind : std::uint8_t { kLayer, kRms };

struct NormOptions {
  NormKind kind = NormKind::kLayer;
  double eps = 1e-5;
  bool plain = false;  // RMS norm as single operators in fp32
};

// Multi-head attention; grouped-query attention if there are fewer key and value heads than query
// heads.
struct AttentionOptions {
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;    // a divisor of `heads`
  std::int64_t head_width = 0;  // 0: the input's width / heads
  bool bias = false;
  bool causal = false;
  bool fused = false;                    // one `attention` node, not scores, softmax and mix
  bool wide = false;                     // if not fused: the softmax in fp32
  bool dropout = false;                  // of probabilities, as in training GPT-2 and GPT-3
  std::optional<double> rope_base = {};  // base of rotary positions, if any
  // Number of tokens of every sequence that are already processed. Their keys and values are
  // inputs, to which those of the given tokens are appended.
  std::int64_t cache = 0;
};

// A feed-forward block. `activation` must be elementwise. A gated block has a third matmul, whose
// result is multiplied with the activated one (SwiGLU if the activation is silu).
struct FeedForwardOptions {
  std::int64_t width = 1;
  const ops::OpSpec* activation = nullptr;
  bool gated = false;
  bool bias = false;
};

// A mixture of experts: every token goes to `active` of `experts` feed-forward blocks.
struct ExpertOptions {
  std::int64_t experts = 1;
  std::int64_t active = 1;
  // Ratio of the fullest expert's tokens to the average. 1 is a perfect balance, which training
  // aims at and does not reach.
  double imbalance = 1;
};

// A transformer layer: attention, then a feed-forward block or experts; each with a norm and a
// residual.
struct TransformerOptions {
  AttentionOptions attention;
  FeedForwardOptions feed_forward;
  std::optional<ExpertOptions> experts = {};
  NormOptions norm;
  bool norm_first = true;  // false: after the residual's sum
  bool dropout = false;    // on the outputs of attention and feed-forward block
};

// A convolution. Sizes are rows, columns; padding is the same, or top, left, bottom, right.
struct ConvOptions {
  ops::Sizes kernel = {1, 1};
  ops::Sizes stride = {1, 1};
  ops::Sizes padding = {0, 0};
  std::int64_t groups = 1;
};

// Adds nodes to a graph under a prefix. It is cheap to copy; the graph must outlive it.
class Block {
 public:
  Block(graph::GraphBuilder& graph, DType dtype, std::string prefix = "")
      : graph_(&graph), dtype_(dtype), prefix_(std::move(prefix)) {}

  // Returns an inner block: its nodes' names begin with this one's prefix and "name.".
  [[nodiscard]] Block scope(std::string_view name) const {
    return {*graph_, dtype_, fmt::format("{}{}.", prefix_, name)};
  }
  [[nodiscard]] std::string make_name(std::string_view name) const {
    return fmt::format("{}{}", prefix_, name);
  }
  [[nodiscard]] const Shape& shape(NodeId id) const { return graph_->node(id).type.shape.sizes; }
  // Returns the size of the last dimension.
  [[nodiscard]] std::int64_t width(NodeId id) const { return shape(id)[shape(id).rank() - 1]; }

  // Single nodes.
  [[nodiscard]] NodeId input(std::string_view name, const Shape& shape) const;
  [[nodiscard]] NodeId indices(std::string_view name, const Shape& shape, std::int64_t below) const;
  [[nodiscard]] NodeId weight(std::string_view name, const Shape& shape) const;
  NodeId add(const ops::OpSpec& spec, std::initializer_list<NodeId> inputs,
             std::string_view name) const {
    return graph_->add(spec, inputs, make_name(name));
  }
  template <class Attributes>
  NodeId add(const ops::OpSpec& spec, Attributes attributes, std::span<const NodeId> inputs,
             std::string_view name) const {
    return graph_->add(ops::make_op(spec, std::move(attributes)), inputs, make_name(name));
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

  // Adds a node that drops a tenth of the elements; each such node drops others.
  NodeId dropout(NodeId x, std::string_view name) const;

  // Dense layers. Weights are named "w_NAME" and "b_NAME".
  NodeId linear(NodeId x, std::int64_t width, std::string_view name, Bias bias = Bias::kNone) const;
  // Adds a layer of every width, with the activation `between` after each but the last and `last`,
  // if any, at the end. Layers are named "NAME1", "NAME2", …
  NodeId mlp(NodeId x, const std::vector<std::int64_t>& widths, std::string_view name,
             const ops::OpSpec& between, const ops::OpSpec* last = nullptr) const;
  NodeId norm(NodeId x, const NormOptions& options, std::string_view name) const;

  // Transformers, on [batch sequence width].
  // An embedding: rows of a table with `vocabulary` rows, for the input "tokens" [batch sequence].
  // The table may have `padding` more rows, which nothing looks up.
  struct EmbeddingNodes {
    NodeId rows;
    NodeId table;
  };
  [[nodiscard]] EmbeddingNodes embedding(std::string_view name, const Shape& indices,
                                         std::int64_t vocabulary, std::int64_t width,
                                         std::int64_t padding = 0) const;
  // Adds rows of a learned position table of `positions` rows, starting at row `first`.
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
  // Tokens sent to experts, [experts batch sequence width], and their gates. The sequence dimension
  // is optional.
  struct DispatchedTokens {
    NodeId tokens;
    NodeId gates;
  };
  [[nodiscard]] DispatchedTokens dispatch(NodeId x, const ExpertOptions& options) const;
  // Multiplies with a separate matrix for every expert.
  NodeId expert_linear(NodeId x, std::int64_t width, std::string_view name) const;
  [[nodiscard]] NodeId transformer_layer(NodeId x, const TransformerOptions& options) const;

  // Convolutions, on [batch channels rows columns].
  NodeId conv(NodeId x, std::int64_t filters, const ConvOptions& options, std::string_view name,
              Bias bias = Bias::kNone) const;
  NodeId batch_norm(NodeId x, const ops::BatchNorm& options, std::string_view name) const;

  // Losses against an input "target", which the first loss creates.
  // Returns the mean cross-entropy of [... classes] against class numbers [...].
  [[nodiscard]] NodeId classification_loss(NodeId logits, std::string_view name = "loss") const;
  // Returns the same loss, built from single operators in fp32.
  [[nodiscard]] NodeId plain_classification_loss(NodeId logits) const;
  [[nodiscard]] NodeId regression_loss(NodeId prediction) const;

 private:
  [[nodiscard]] NodeId cast_to_fp32(NodeId x, std::string_view name) const;
  [[nodiscard]] NodeId cast_to_model_dtype(NodeId x, std::string_view name) const;
  [[nodiscard]] NodeId plain_rms_norm(NodeId x, NodeId scale, double eps,
                                      std::string_view name) const;
  [[nodiscard]] NodeId find_or_add_target(NodeId logits) const;
  NodeId project(NodeId x, std::int64_t heads, std::int64_t width, bool bias,
                 std::string_view name) const;
  NodeId attend(NodeId q, NodeId k, NodeId v, const AttentionOptions& options) const;

  graph::GraphBuilder* graph_;
  DType dtype_;
  std::string prefix_;
};

// Read options from the hyperparameters "heads", "kv_heads" (if there is one), "experts", ... They
// throw UserError for impossible values: "hidden 8 is not a multiple of heads 3".
AttentionOptions read_attention_options(const Settings& settings);
ExpertOptions read_expert_options(const Settings& settings);
std::vector<Hyperparameter> expert_hyperparameters(std::int64_t experts, std::int64_t active);
// Fails if there are rotary positions and the heads' width is odd; they rotate pairs of elements.
void check_rope(const Settings& settings, const AttentionOptions& options);

}  // namespace tandem::models

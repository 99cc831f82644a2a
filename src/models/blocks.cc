#include "models/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/registry.h"

namespace tandem::models {

// --- Nodes --------------------------------------------------------------------------------------

NodeId Block::input(std::string_view name, const Shape& shape) const {
  return graph_->input(make_name(name), ParallelShape(shape), dtype_);
}

NodeId Block::indices(std::string_view name, const Shape& shape, std::int64_t below) const {
  return graph_->input(make_name(name), ParallelShape(shape), DType::kInt64, below);
}

NodeId Block::weight(std::string_view name, const Shape& shape) const {
  return graph_->weight(make_name(name), ParallelShape(shape), dtype_);
}

NodeId Block::contract(NodeId lhs, NodeId rhs, std::string_view index, std::string_view name,
                       double scale) const {
  return add(ops::kContract, ops::Contract{std::string(index), scale}, {lhs, rhs}, name);
}

NodeId Block::reshape(NodeId x, const Shape& shape, std::string_view name) const {
  return add(ops::kReshape, ops::Reshape{{shape.begin(), shape.end()}}, {x}, name);
}

NodeId Block::concat(const std::vector<NodeId>& parts, std::int64_t axis,
                     std::string_view name) const {
  return add(ops::kConcat, ops::Concat{axis}, parts, name);
}

// --- Dense layers -------------------------------------------------------------------------------

NodeId Block::linear(NodeId x, std::int64_t width, std::string_view name, Bias bias) const {
  const auto w = weight(fmt::format("w_{}", name), {width, this->width(x)});
  if (bias == Bias::kNone) return add(ops::kLinear, {x, w}, name);
  if (bias == Bias::kInside) {
    const auto b = weight(fmt::format("b_{}", name), {width});
    return add(ops::kLinear, {x, w, b}, name);
  }
  const auto projected = add(ops::kLinear, {x, w}, name);
  const auto b = weight(fmt::format("b_{}", name), {width});
  return add(ops::kAdd, {projected, b}, fmt::format("{}_biased", name));
}

NodeId Block::mlp(NodeId x, const std::vector<std::int64_t>& widths, std::string_view name,
                  const ops::OpSpec& between, const ops::OpSpec* last) const {
  for (std::size_t layer = 1; layer <= widths.size(); ++layer) {
    x = linear(x, widths[layer - 1], fmt::format("{}{}", name, layer));
    const auto* activation = layer < widths.size() ? &between : last;
    if (activation == nullptr) continue;
    x = add(*activation, {x}, fmt::format("{}_{}{}", name, activation->name, layer));
  }
  return x;
}

// Casts `x` to fp32 if the model's dtype is narrower.
NodeId Block::cast_to_fp32(NodeId x, std::string_view name) const {
  if (get_element_size(dtype_) >= get_element_size(DType::kFp32)) return x;
  return add(ops::kCast, ops::Cast{DType::kFp32}, {x}, name);
}

// Casts `x` back to the model's dtype.
NodeId Block::cast_to_model_dtype(NodeId x, std::string_view name) const {
  if (graph_->node(x).type.dtype == dtype_) return x;
  return add(ops::kCast, ops::Cast{dtype_}, {x}, name);
}

NodeId Block::plain_rms_norm(NodeId x, NodeId scale, double eps, std::string_view name) const {
  const auto part = [&](std::string_view what) { return fmt::format("{}_{}", name, what); };
  const auto wide = cast_to_fp32(x, part("wide"));
  const auto squares = add(ops::kSquare, {wide}, part("squares"));
  const auto last = static_cast<std::int64_t>(shape(x).rank()) - 1;
  const ops::Reduction over_last{.axes = {last}, .keep_dims = true};
  const auto mean = add(ops::kReduceMean, over_last, {squares}, part("mean"));
  const auto dtype = graph_->node(wide).type.dtype;
  const ops::Constant small{.shape = ParallelShape(Shape{1}), .dtype = dtype, .value = eps};
  const auto sum = add(ops::kAdd, {mean, add(ops::kConstant, small, {}, part("eps"))}, part("sum"));
  const auto normed = add(ops::kMul, {wide, add(ops::kRsqrt, {sum}, part("rate"))}, part("normed"));
  return add(ops::kMul, {cast_to_model_dtype(normed, part("narrow")), scale}, name);
}

NodeId Block::norm(NodeId x, const NormOptions& options, std::string_view name) const {
  const auto scale = weight(fmt::format("{}_scale", name), {width(x)});
  if (options.kind == NormKind::kRms && options.plain) {
    return plain_rms_norm(x, scale, options.eps, name);
  }
  if (options.kind == NormKind::kRms) {
    return add(ops::kRmsNorm, ops::Norm{options.eps}, {x, scale}, name);
  }
  const auto shift = weight(fmt::format("{}_shift", name), {width(x)});
  return add(ops::kLayerNorm, ops::Norm{options.eps}, {x, scale, shift}, name);
}

// --- Transformers -------------------------------------------------------------------------------

Block::EmbeddingNodes Block::embedding(std::string_view name, const Shape& indices,
                                       std::int64_t vocabulary, std::int64_t width,
                                       std::int64_t padding) const {
  const auto index = this->indices(name, indices, vocabulary);
  const auto table = weight(fmt::format("w_{}", name), {vocabulary + padding, width});
  return {add(ops::kEmbedding, {index, table}, fmt::format("{}_embedded", name)), table};
}

NodeId Block::add_positions(NodeId x, std::int64_t positions, std::int64_t first) const {
  const auto sequence = shape(x)[1];
  auto rows = weight("w_positions", {positions, width(x)});
  if (positions > sequence) {
    rows = add(ops::kSlice, ops::Slice{.axis = 0, .begin = first, .size = sequence}, {rows},
               "positions");
  }
  return add(ops::kAdd, {x, rows}, "positions_sum");
}

// Projects x [b s i] to [b h s d], with a matrix for every head.
NodeId Block::project(NodeId x, std::int64_t heads, std::int64_t width, bool bias,
                      std::string_view name) const {
  const auto w = weight(fmt::format("w_{}", name), {heads, width, this->width(x)});
  const auto projected = contract(x, w, "b s i, h d i -> b h s d", name);
  if (!bias) return projected;
  const auto b = weight(fmt::format("b_{}", name), {heads, 1, width});
  return add(ops::kAdd, {projected, b}, fmt::format("{}_biased", name));
}

// Returns the mean of the values, weighted by the softmax of the scores.
NodeId Block::attend(NodeId q, NodeId k, NodeId v, const AttentionOptions& options) const {
  const double scale = 1 / std::sqrt(static_cast<double>(width(q)));
  if (options.fused) {
    return add(ops::kAttention, ops::Attention{scale, options.causal}, {q, k, v}, "mixed");
  }
  const bool grouped = options.heads != options.kv_heads;
  auto scores = contract(
      q, k, grouped ? "b (kv g) s d, b kv t d -> b (kv g) s t" : "b h s d, b h t d -> b h s t",
      "scores", scale);
  if (options.wide) scores = cast_to_fp32(scores, "scores_wide");
  auto weights = add(ops::kSoftmax, ops::Softmax{.axis = -1, .causal = options.causal}, {scores},
                     "probabilities");
  weights = cast_to_model_dtype(weights, "probabilities_narrow");
  if (options.dropout) weights = dropout(weights, "probabilities_dropped");
  return contract(
      weights, v,
      grouped ? "b (kv g) s t, b kv t d -> b (kv g) s d" : "b h s t, b h t d -> b h s d", "mixed");
}

NodeId Block::attention(NodeId query, NodeId key, NodeId value,
                        const AttentionOptions& options) const {
  const auto out_width = width(query);
  const auto head = options.head_width > 0 ? options.head_width : out_width / options.heads;
  const auto rotate = [&](NodeId x, std::string_view name) {
    if (!options.rope_base) return x;
    return add(ops::kRope, ops::Rope{.base = *options.rope_base, .first = options.cache}, {x},
               name);
  };
  const auto with_cache = [&](NodeId x, std::string_view name) {
    if (options.cache == 0) return x;
    auto sizes = shape(x);
    sizes[2] = options.cache;
    const auto cached = input(fmt::format("{}_cache", name), sizes);
    return add(ops::kAppend, ops::Concat{2}, {cached, x}, fmt::format("{}_seen", name));
  };
  const auto q = rotate(project(query, options.heads, head, options.bias, "q"), "q_rotated");
  const auto new_k = rotate(project(key, options.kv_heads, head, options.bias, "k"), "k_rotated");
  const auto k = with_cache(new_k, "k");
  const auto v = with_cache(project(value, options.kv_heads, head, options.bias, "v"), "v");
  const auto mixed = attend(q, k, v, options);
  const auto w = weight("w_o", {out_width, options.heads, head});
  const auto out = contract(mixed, w, "b h s d, o h d -> b s o", "attention_out");
  if (!options.bias) return out;
  const auto b = weight("b_o", {out_width});
  return add(ops::kAdd, {out, b}, "attention_biased");
}

NodeId Block::feed_forward(NodeId x, const FeedForwardOptions& options) const {
  const auto& activation = *options.activation;
  const auto name = fmt::format("ffn_{}", activation.name);
  const auto inside = options.bias ? Bias::kInside : Bias::kNone;
  const auto apart = options.bias ? Bias::kApart : Bias::kNone;
  if (!options.gated) {
    const auto inner = add(activation, {linear(x, options.width, "ffn1", inside)}, name);
    return linear(inner, width(x), "ffn2", apart);
  }
  const auto gate = add(activation, {linear(x, options.width, "ffn_gate", inside)}, name);
  const auto up = linear(x, options.width, "ffn_up", inside);
  const auto inner = add(ops::kMul, {gate, up}, "ffn_product");
  return linear(inner, width(x), "ffn_down", apart);
}

NodeId Block::dropout(NodeId x, std::string_view name) const {
  constexpr double kDropped = 0.1;
  const auto origin = static_cast<std::int64_t>(hash_text(make_name(name)) >> 1U);
  return add(ops::kDropout, ops::Dropout{.p = kDropped, .origin = origin}, {x}, name);
}

Block::DispatchedTokens Block::dispatch(NodeId x, const ExpertOptions& options) const {
  const auto logits = linear(x, options.experts, "router");
  const auto gates = add(ops::kTopKGate, ops::TopK{options.active}, {logits}, "gates");
  const double share = static_cast<double>(options.active) / static_cast<double>(options.experts);
  const ops::Dispatch density{std::min(1.0, share * options.imbalance)};
  return {add(ops::kMoeDispatch, density, {x, gates}, "dispatched"), gates};
}

NodeId Block::expert_linear(NodeId x, std::int64_t width, std::string_view name) const {
  const auto w = weight(fmt::format("w_{}", name), {shape(x)[0], width, this->width(x)});
  const bool sequences = shape(x).rank() == 4;
  return contract(x, w, sequences ? "e b s i, e f i -> e b s f" : "e b i, e f i -> e b f", name);
}

NodeId Block::mixture_of_experts(NodeId x, const FeedForwardOptions& expert,
                                 const ExpertOptions& options) const {
  CHECK(!expert.bias, prefix_);
  const auto& activation = *expert.activation;
  const auto name = fmt::format("expert_{}", activation.name);
  const auto [tokens, gates] = dispatch(x, options);
  NodeId out;
  if (expert.gated) {
    const auto gate = add(activation, {expert_linear(tokens, expert.width, "expert_gate")}, name);
    const auto up = expert_linear(tokens, expert.width, "expert_up");
    const auto inner = add(ops::kMul, {gate, up}, "expert_product");
    out = expert_linear(inner, width(x), "expert_down");
  } else {
    const auto inner = add(activation, {expert_linear(tokens, expert.width, "expert1")}, name);
    out = expert_linear(inner, width(x), "expert2");
  }
  return add(ops::kMoeCombine, {gates, out}, "combined");
}

NodeId Block::transformer_layer(NodeId x, const TransformerOptions& options) const {
  const auto before = [&](NodeId v, std::string_view name) {
    return options.norm_first ? norm(v, options.norm, name) : v;
  };
  const auto after = [&](NodeId v, std::string_view name) {
    return options.norm_first ? v : norm(v, options.norm, name);
  };
  const auto dropped = [&](NodeId v, std::string_view name) {
    return options.dropout ? dropout(v, name) : v;
  };
  const auto attended =
      dropped(attention(before(x, "attention_norm"), options.attention), "attention_dropped");
  x = after(add(ops::kAdd, {x, attended}, "attention_sum"), "attention_norm");
  const auto inner = before(x, "ffn_norm");
  const auto fed = options.experts
                       ? mixture_of_experts(inner, options.feed_forward, *options.experts)
                       : feed_forward(inner, options.feed_forward);
  return after(add(ops::kAdd, {x, dropped(fed, "ffn_dropped")}, "ffn_sum"), "ffn_norm");
}

// --- Convolutions -------------------------------------------------------------------------------

NodeId Block::conv(NodeId x, std::int64_t filters, const ConvOptions& options,
                   std::string_view name, Bias bias) const {
  CHECK(bias != Bias::kApart, name);
  const auto channels = shape(x)[1];
  CHECK(channels % options.groups == 0, name, channels, options.groups);
  const auto w = weight(fmt::format("w_{}", name),
                        {filters, channels / options.groups, options.kernel[0], options.kernel[1]});
  const ops::Conv2d attributes{
      .stride = options.stride, .padding = options.padding, .groups = options.groups};
  if (bias == Bias::kNone) return add(ops::kConv2d, attributes, {x, w}, name);
  const auto b = weight(fmt::format("b_{}", name), {filters});
  return add(ops::kConv2d, attributes, {x, w, b}, name);
}

NodeId Block::batch_norm(NodeId x, const ops::BatchNorm& options, std::string_view name) const {
  const auto scale = weight(fmt::format("{}_scale", name), {shape(x)[1]});
  const auto shift = weight(fmt::format("{}_shift", name), {shape(x)[1]});
  return add(ops::kBatchNorm, options, {x, scale, shift}, name);
}

// --- Losses -------------------------------------------------------------------------------------

NodeId Block::find_or_add_target(NodeId logits) const {
  if (const auto target = graph_->find(make_name("target"))) return *target;
  Shape positions;
  const auto sizes = shape(logits);
  for (std::size_t d = 0; d + 1 < sizes.rank(); ++d) positions.push_back(sizes[d]);
  return indices("target", positions, width(logits));
}

NodeId Block::classification_loss(NodeId logits, std::string_view name) const {
  return add(ops::kCrossEntropy, {logits, find_or_add_target(logits)}, name);
}

NodeId Block::plain_classification_loss(NodeId logits) const {
  const auto target = find_or_add_target(logits);
  const auto wide = cast_to_fp32(logits, "loss_logits");
  const auto logs = add(ops::kLogSoftmax, {wide}, "loss_logs");
  const auto right = add(ops::kPick, {logs, target}, "loss_right");
  return add(ops::kReduceMean, {add(ops::kNeg, {right}, "losses")}, "loss");
}

NodeId Block::regression_loss(NodeId prediction) const {
  const auto target = input("target", shape(prediction));
  return add(ops::kMse, {prediction, target}, "loss");
}

// --- From hyperparameters -----------------------------------------------------------------------

AttentionOptions read_attention_options(const Settings& settings) {
  const auto hidden = settings.size("hidden");
  const auto heads = settings.size("heads");
  const auto kv_heads =
      settings.has("kv_heads") ? settings.size_or_same("kv_heads", "heads") : heads;
  if (hidden % heads != 0) {
    settings.fail(fmt::format("hidden {} is not a multiple of heads {}", hidden, heads));
  }
  if (heads % kv_heads != 0) {
    settings.fail(fmt::format("heads {} is not a multiple of kv_heads {}", heads, kv_heads));
  }
  const auto kind = settings.choice("attention", {"plain", "fused", "wide"});
  return {
      .heads = heads,
      .kv_heads = kv_heads,
      .fused = kind == "fused",
      .wide = kind == "wide",
  };
}

void check_rope(const Settings& settings, const AttentionOptions& options) {
  const auto hidden = settings.size("hidden");
  if (!options.rope_base || hidden / options.heads % 2 == 0) return;
  settings.fail(
      fmt::format("hidden {} / heads {} is odd, but rotary embeddings need an even head width",
                  hidden, options.heads));
}

std::vector<Hyperparameter> expert_hyperparameters(std::int64_t experts, std::int64_t active) {
  return {{"experts", fmt::format("{}", experts), "experts"},
          {"active_experts", fmt::format("{}", active), "experts per token"},
          {"imbalance", "1",
           "tokens of the busiest expert / tokens per expert on average; 1 is perfect balance"}};
}

ExpertOptions read_expert_options(const Settings& settings) {
  const ExpertOptions out{.experts = settings.size("experts"),
                          .active = settings.size("active_experts"),
                          .imbalance = settings.real("imbalance")};
  if (out.active > out.experts) {
    settings.fail(
        fmt::format("active_experts {} is more than experts {}", out.active, out.experts));
  }
  if (out.imbalance < 1) settings.fail("imbalance must be at least 1, which is perfect balance");
  return out;
}

}  // namespace tandem::models

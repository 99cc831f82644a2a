// The encoder layers of BERT-Large (Devlin et al., 2018): 24 layers, hidden 1024, 16 heads, FFN
// 4096, sequence 512, with a rectifier in the FFN. Token embeddings and the output head are not
// part of it yet: the input is the embedded sequence.
#include <cmath>

#include "models/model.h"
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::models {

namespace {

class BertBuilder {
 public:
  BertBuilder(const Settings& settings, std::int64_t batch, DType dtype)
      : b_("bert_large"),
        batch_(batch),
        dtype_(dtype),
        hidden_(settings.size("hidden")),
        heads_(settings.size("heads")),
        ffn_(settings.size("ffn")),
        seq_(settings.size("seq")),
        layers_(settings.size("layers")) {
    if (hidden_ % heads_ != 0) {
      throw UserError("model", "bert_large",
                      fmt::format("hidden {} is not a multiple of heads {}", hidden_, heads_));
    }
  }

  graph::Graph run() {
    auto x = b_.input("x", {batch_, seq_, hidden_}, dtype_);
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      prefix_ = fmt::format("l{}.", layer);
      x = norm(b_.add(ops::kAdd, {x, attention(x)}, at("attention_sum")), "attention_norm");
      x = norm(b_.add(ops::kAdd, {x, feed_forward(x)}, at("ffn_sum")), "ffn_norm");
    }
    const auto target = b_.input("target", {batch_, seq_, hidden_}, dtype_);
    return b_.finish({b_.add(ops::kMse, {x, target}, "loss")});
  }

 private:
  using NodeId = graph::NodeId;

  [[nodiscard]] std::string at(const std::string& name) const { return prefix_ + name; }

  NodeId contract(NodeId lhs, NodeId rhs, const std::string& index, const std::string& name,
                  double scale = 1) {
    return b_.add(ops::make_op(ops::kContract, ops::Contract{index, scale}), {lhs, rhs}, at(name));
  }

  // Projects x to [b h s d], a matrix per head.
  NodeId project(NodeId x, const std::string& name) {
    const auto w = b_.weight(at("w_" + name), {heads_, hidden_ / heads_, hidden_}, dtype_);
    return contract(x, w, "b s i, h d i -> b h s d", name);
  }

  NodeId attention(NodeId x) {
    const auto q = project(x, "q");
    const auto k = project(x, "k");
    const auto v = project(x, "v");
    const auto width = hidden_ / heads_;
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    const auto scores = contract(q, k, "b h s d, b h t d -> b h s t", "scores", scale);
    const auto weights = b_.add(ops::kSoftmax, {scores}, at("probabilities"));
    const auto mixed = b_.add(ops::kMatMul, {weights, v}, at("mixed"));
    const auto w = b_.weight(at("w_o"), {hidden_, heads_, hidden_ / heads_}, dtype_);
    return contract(mixed, w, "b h s d, o h d -> b s o", "attention_out");
  }

  NodeId feed_forward(NodeId x) {
    const auto w1 = b_.weight(at("w_ffn1"), {ffn_, hidden_}, dtype_);
    const auto w2 = b_.weight(at("w_ffn2"), {hidden_, ffn_}, dtype_);
    const auto inner =
        b_.add(ops::kRelu, {b_.add(ops::kLinear, {x, w1}, at("ffn1"))}, at("ffn_relu"));
    return b_.add(ops::kLinear, {inner, w2}, at("ffn2"));
  }

  NodeId norm(NodeId x, const std::string& name) {
    const auto scale = b_.weight(at(name + "_scale"), {hidden_}, dtype_);
    const auto shift = b_.weight(at(name + "_shift"), {hidden_}, dtype_);
    return b_.add(ops::kLayerNorm, {x, scale, shift}, at(name));
  }

  graph::GraphBuilder b_;
  std::int64_t batch_;
  DType dtype_;
  std::int64_t hidden_, heads_, ffn_, seq_, layers_;
  std::string prefix_;
};

}  // namespace

const ModelSpec kBertLarge = {
    .name = "bert_large",
    .doc = "encoder layers of BERT-Large (arXiv:1810.04805), without embeddings and head",
    .hyperparameters = {{"layers", "24", "encoder layers"},
                        {"hidden", "1024", "model width"},
                        {"heads", "16", "attention heads"},
                        {"ffn", "4096", "width inside the feed-forward block"},
                        {"seq", "512", "sequence length"}},
    .batch_per_device = 4,
    .train_batch = 8,
    .adam = true,
    .build = [](const Settings& s, std::int64_t batch,
                DType dtype) { return BertBuilder(s, batch, dtype).run(); },
};

}  // namespace tandem::models

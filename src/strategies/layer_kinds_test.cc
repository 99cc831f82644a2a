#include "strategies/layer_kinds.h"

#include <gtest/gtest.h>

#include <map>

#include "models/model.h"
#include "models/small_models_test_support.h"

namespace tandem::strategies {
namespace {

graph::Graph build(const std::string& name) {
  return models::parse_model(name + ":" + models::small_models().at(name).settings)
      .build(4, DType::kFp32);
}

// Returns the kinds of a model's weights: "dense: w_top1 w_top2\n...". Lists only the first layer.
std::string weights_by_kind(const graph::Graph& model) {
  const auto kinds = find_layer_kinds(model);
  std::map<LayerKind, std::string> names;
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    if (is_weight(node) && !node.name.starts_with("l1.")) {
      names[kinds[id.index()]] += " " + node.name;
    }
  }
  std::string out;
  for (const auto& [kind, list] : names) out += std::string(name(kind)) + ":" + list + "\n";
  return out;
}

TEST(LayerKinds, CoverALanguageModel) {
  EXPECT_EQ(weights_by_kind(build("gpt2")),
            "transformer: l0.attention_norm_scale l0.attention_norm_shift l0.w_q l0.b_q l0.w_k "
            "l0.b_k l0.w_v l0.b_v l0.w_o l0.b_o l0.ffn_norm_scale l0.ffn_norm_shift l0.w_ffn1 "
            "l0.b_ffn1 l0.w_ffn2 l0.b_ffn2 final_norm_scale final_norm_shift\n"
            "word_embedding: w_tokens w_positions\n");
  // An untied LM head is a matrix like the embedding table.
  EXPECT_EQ(weights_by_kind(build("llama3_8b")),
            "transformer: l0.attention_norm_scale l0.w_q l0.w_k l0.w_v l0.w_o l0.ffn_norm_scale "
            "l0.w_ffn_gate l0.w_ffn_up l0.w_ffn_down final_norm_scale\n"
            "word_embedding: w_tokens w_logits\n");
}

TEST(LayerKinds, CoverExperts) {
  EXPECT_EQ(weights_by_kind(build("mixtral_8x7b")),
            "transformer: l0.attention_norm_scale l0.w_q l0.w_k l0.w_v l0.w_o l0.ffn_norm_scale "
            "l0.w_router final_norm_scale\n"
            "experts: l0.w_expert_gate l0.w_expert_up l0.w_expert_down\n"
            "word_embedding: w_tokens w_logits\n");
  EXPECT_EQ(weights_by_kind(build("dlrm_a_moe")),
            "embedding: tables bags_norm_scale bags_norm_shift\n"
            "dense: w_bottom1 w_bottom2 w_router w_click\n"
            "experts: w_top1 w_top2\n");
}

TEST(LayerKinds, CoverRecommenders) {
  EXPECT_EQ(weights_by_kind(build("dlrm")),
            "embedding: table0 table1\ndense: w_bottom1 w_bottom2 w_top1 w_top2\n");
  EXPECT_EQ(weights_by_kind(build("xdl")), "embedding: table0 table1\ndense: w_top1 w_top2\n");
  EXPECT_EQ(weights_by_kind(build("dlrm_b_transformer")),
            "embedding: tables bags_norm_scale bags_norm_shift\n"
            "dense: w_bottom1 w_bottom2 w_to_tokens w_top1 w_top2 w_click\n"
            "transformer: l0.attention_norm_scale l0.attention_norm_shift l0.w_q l0.w_k l0.w_v "
            "l0.w_o l0.ffn_norm_scale l0.ffn_norm_shift l0.w_ffn1 l0.w_ffn2\n");
}

TEST(LayerKinds, AreDenseInOtherNetworks) {
  for (const std::string name : {"mlp", "candle_uno", "resnext50", "inception_v3", "nasnet_a"}) {
    const auto model = build(name);
    for (auto kind : find_layer_kinds(model)) EXPECT_EQ(kind, LayerKind::kDense) << name;
  }
}

TEST(LayerKinds, RoundTripNames) {
  for (auto kind : kLayerKinds) EXPECT_EQ(parse_layer_kind(name(kind)), kind);
  EXPECT_EQ(parse_layer_kind("conv"), std::nullopt);
}

}  // namespace
}  // namespace tandem::strategies

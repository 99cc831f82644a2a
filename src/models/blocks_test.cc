#include "models/blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "graph/sequential.h"
#include "models/small_models_test_support.h"
#include "ops/registry.h"

namespace tandem::models {
namespace {

using graph::Graph;
using graph::GraphBuilder;

double loss(const Graph& graph) {
  return graph::run_forward<double>(graph, graph::make_feed_values<double>(graph, 7, 0))
      .at(graph.outputs()[0].index())
      .data[0];
}

std::vector<double> output(const Graph& graph) {
  return graph::run_forward<double>(graph, graph::make_feed_values<double>(graph, 7, 0))
      .at(graph.outputs()[0].index())
      .data;
}

double model_loss(const std::string& text) {
  return loss(parse_model(text).build(2, DType::kFp64));
}

std::vector<double> source(const Graph& graph, std::string_view name) {
  for (auto id : graph.ids()) {
    if (graph.node(id).name == name) return graph::make_feed_values<double>(graph, 7, 0)(id).data;
  }
  ADD_FAILURE() << "no node " << name;
  return {};
}

// Weights start as a function of their names, so fused and plain attention compute the same number.
TEST(Blocks, ComputeFusedAttentionLikePlainAttention) {
  for (const std::string name : {"bert_large", "gpt2", "gpt3_175b", "llama_65b", "llama2_70b",
                                 "llama3_8b", "mixtral_8x7b", "dlrm_a_transformer"}) {
    const auto text = name + ":" + small_models().at(name).settings;
    const auto plain = model_loss(text + ",attention=plain");
    EXPECT_NEAR(model_loss(text + ",attention=fused"), plain, 1e-12 * std::abs(plain)) << name;
  }
  for (const std::string heads : {"kv_heads=1", "kv_heads=2", "kv_heads=4", "kv_heads=heads"}) {
    const auto text = "llama_65b:layers=1,hidden=16,heads=4,ffn=6,vocab=5,seq=4," + heads;
    EXPECT_NEAR(model_loss(text + ",attention=fused"), model_loss(text + ",attention=plain"), 1e-12)
        << heads;
  }
}

TEST(Blocks, ComputePlainNormsAndLossesLikeFusedOnes) {
  const std::string text = "llama_65b:" + small_models().at("llama_65b").settings;
  const auto fused = model_loss(text);
  for (const auto* other : {",norm=plain", ",loss=plain", ",attention=wide"}) {
    EXPECT_NEAR(model_loss(text + other), fused, 1e-12 * std::abs(fused)) << other;
  }
  const auto vocabulary = model_loss(text + ",vocab_pad=4");
  EXPECT_NEAR(model_loss(text + ",vocab_pad=4,loss=plain"), vocabulary, 1e-12 * vocabulary);
}

TEST(Blocks, ComputePlainOperatorsInFp32) {
  const std::string text = "llama_65b:" + small_models().at("llama_65b").settings +
                           ",norm=plain,loss=plain,attention=wide";
  const auto graph = parse_model(text).build(2, DType::kBf16);
  std::map<std::string, DType> dtypes;
  for (auto id : graph.ids()) dtypes[graph.node(id).name] = graph.node(id).type.dtype;
  const auto dtype = [&](const std::string& name) { return dtypes.at(name); };
  EXPECT_EQ(dtype("l0.attention_norm_mean"), DType::kFp32);
  EXPECT_EQ(dtype("l0.attention_norm"), DType::kBf16);
  EXPECT_EQ(dtype("l0.probabilities"), DType::kFp32);
  EXPECT_EQ(dtype("l0.mixed"), DType::kBf16);
  EXPECT_EQ(dtype("logits"), DType::kBf16);
  EXPECT_EQ(dtype("loss"), DType::kFp32);
}

// Compares with attention written out for one head and one sample.
TEST(Blocks, ComputeAttentionByHand) {
  const std::int64_t seq = 3;
  const std::int64_t width = 2;
  for (const bool causal : {false, true}) {
    GraphBuilder builder("attention");
    const Block b(builder, DType::kFp64);
    const auto x = b.input("x", {1, seq, width});
    const auto graph = builder.finish(
        {b.attention(x, {.heads = 1, .kv_heads = 1, .bias = true, .causal = causal})});
    const auto in = source(graph, "x");
    const auto project = [&](const std::string& name, std::span<const double> row) {
      const auto w = source(graph, "w_" + name);
      const auto bias = source(graph, "b_" + name);
      std::vector<double> out;
      for (std::size_t o = 0; o < 2; ++o) {
        out.push_back(w[2 * o] * row[0] + w[2 * o + 1] * row[1] + bias[o]);
      }
      return out;
    };
    const auto actual = output(graph);
    for (std::size_t s = 0; s < 3; ++s) {
      const auto q = project("q", std::span(in).subspan(2 * s, 2));
      double total = 0;
      std::vector<double> mixed = {0, 0};
      for (std::size_t t = 0; t < (causal ? s + 1 : 3); ++t) {
        const auto k = project("k", std::span(in).subspan(2 * t, 2));
        const auto v = project("v", std::span(in).subspan(2 * t, 2));
        const auto weight = std::exp((q[0] * k[0] + q[1] * k[1]) / std::sqrt(2.0));
        total += weight;
        mixed[0] += weight * v[0];
        mixed[1] += weight * v[1];
      }
      mixed[0] /= total;
      mixed[1] /= total;
      const auto expected = project("o", mixed);
      EXPECT_NEAR(actual[2 * s], expected[0], 1e-12);
      EXPECT_NEAR(actual[2 * s + 1], expected[1], 1e-12);
    }
  }
}

// A later token changes nothing before it, so the losses of a longer text's beginning are equal.
TEST(Blocks, MaskFutureTokensInCausalAttention) {
  const auto logits = [](std::int64_t seq) {
    GraphBuilder builder("causal");
    const Block b(builder, DType::kFp64);
    const auto x = b.input("x", {1, seq, 4});
    return output(builder.finish(
        {b.attention(x, {.heads = 2, .kv_heads = 1, .causal = true, .rope_base = 100})}));
  };
  const auto little = logits(3);
  const auto more = logits(5);
  for (std::size_t i = 0; i < little.size(); ++i) EXPECT_NEAR(more[i], little[i], 1e-12);
}

TEST(Blocks, SupportCrossAttentionAndAnyHeadWidth) {
  GraphBuilder builder("cross");
  const Block b(builder, DType::kFp32);
  const auto x = b.input("x", {2, 3, 4});
  const auto memory = b.input("memory", {2, 5, 6});
  const auto out = b.attention(x, memory, memory, {.heads = 2, .kv_heads = 1, .head_width = 3});
  EXPECT_EQ(b.shape(out), Shape({2, 3, 4}));
  const auto graph = builder.finish({out});
  EXPECT_EQ(count_parameters(graph), 2 * 3 * 4 + 2 * 1 * 3 * 6 + 4 * 2 * 3);
}

// With all experts active, a mixture is the gates' mean of the experts, each a feed-forward block.
TEST(Blocks, AverageAllExperts) {
  const std::int64_t width = 2;
  for (const bool gated : {false, true}) {
    GraphBuilder builder("experts");
    const Block b(builder, DType::kFp64);
    const auto x = b.input("x", {1, 1, width});
    const auto graph = builder.finish({b.mixture_of_experts(
        x, {.width = 3, .activation = &ops::kRelu, .gated = gated}, {.experts = 2, .active = 2})});
    const auto in = source(graph, "x");
    const auto multiply = [&](const std::string& name, std::span<const double> v,
                              std::size_t expert, std::size_t rows) {
      const auto w = source(graph, "w_" + name);
      std::vector<double> out(rows);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < v.size(); ++c) {
          out[r] += w[(expert * rows + r) * v.size() + c] * v[c];
        }
      }
      return out;
    };
    const auto scores = multiply("router", in, 0, 2);
    const double total = std::exp(scores[0]) + std::exp(scores[1]);
    std::vector<double> expected = {0, 0};
    for (std::size_t e = 0; e < 2; ++e) {
      auto inner = multiply(gated ? "expert_gate" : "expert1", in, e, 3);
      for (auto& v : inner) v = std::max(v, 0.0);
      if (gated) {
        const auto up = multiply("expert_up", in, e, 3);
        for (std::size_t i = 0; i < 3; ++i) inner[i] *= up[i];
      }
      const auto out = multiply(gated ? "expert_down" : "expert2", inner, e, 2);
      for (std::size_t i = 0; i < 2; ++i) expected[i] += std::exp(scores[e]) / total * out[i];
    }
    const auto actual = output(graph);
    EXPECT_NEAR(actual[0], expected[0], 1e-12);
    EXPECT_NEAR(actual[1], expected[1], 1e-12);
  }
}

TEST(Blocks, PrefixNames) {
  GraphBuilder builder("names");
  const Block b(builder, DType::kFp32);
  const auto x = b.input("x", {2, 4});
  const auto y = b.scope("stage2").scope("block3").linear(x, 3, "fc", Bias::kApart);
  const auto graph =
      builder.finish({b.scope("head").mlp(y, {5, 2}, "fc", ops::kRelu, &ops::kTanh)});
  std::string names;
  for (auto id : graph.ids()) names += graph.node(id).name + " ";
  EXPECT_EQ(names,
            "x stage2.block3.w_fc stage2.block3.fc stage2.block3.b_fc stage2.block3.fc_biased "
            "head.w_fc1 head.fc1 head.fc_relu1 head.w_fc2 head.fc2 head.fc_tanh2 ");
}

// Biases inside and apart give the same numbers, but a split sum needs the latter.
TEST(Blocks, SupportFusedAndSeparateBiases) {
  const auto build = [](Bias bias) {
    GraphBuilder builder("bias");
    const Block b(builder, DType::kFp64);
    return builder.finish({b.linear(b.input("x", {2, 4}), 3, "fc", bias)});
  };
  const auto inside = output(build(Bias::kInside));
  const auto apart = output(build(Bias::kApart));
  ASSERT_EQ(inside.size(), 6U);
  for (std::size_t i = 0; i < inside.size(); ++i) EXPECT_NEAR(inside[i], apart[i], 1e-14);
  EXPECT_EQ(build(Bias::kNone).size(), 3U);
}

TEST(Blocks, ShareTheTargetBetweenLosses) {
  GraphBuilder builder("losses");
  const Block b(builder, DType::kFp32);
  const auto x = b.input("x", {2, 4});
  const auto first = b.classification_loss(x, "first");
  const auto second = b.classification_loss(x, "second");
  const auto graph = builder.finish({b.add(ops::kAdd, {first, second}, "loss")});
  EXPECT_EQ(graph.size(), 5U);  // x, target, two losses, their sum
}

}  // namespace
}  // namespace tandem::models

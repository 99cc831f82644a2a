#include "strategies/model_figures.h"

#include <gtest/gtest.h>

#include "models/model.h"
#include "models/small_models_test_support.h"

namespace tandem::strategies {
namespace {

ModelFigures figures(std::string_view text, std::int64_t batch = 2, DType dtype = DType::kFp32) {
  return compute_figures(models::parse_model(text).build(batch, dtype), batch);
}

// Table 2 of MAD-Max (ISCA'24): FLOPs and bytes looked up, per sample or token. Published FLOPs are
// those of matmuls with weights. These figures also count attention scores, the vocabulary, norms
// and lookups, so they are up to `more` higher.
TEST(ModelFigures, MatchThePublishedOnes) {
  struct Case {
    std::string_view model;
    std::int64_t tokens;
    double flops, more;
    double lookups, tolerance;
  };
  const Case cases[] = {
      // The published lookups have width 92, the parameters width 93: 1.1 % apart.
      {"dlrm_a", 0, 638e6, 0.016, 22.61e6, 0.011},
      {"dlrm_a_transformer", 0, 2.6e9, 0.05, 22.61e6, 0.011},
      {"dlrm_a_moe", 0, 957e6, 0.012, 22.61e6, 0.011},
      {"dlrm_b", 0, 60e6, 0.066, 13.19e6, 0.0005},
      {"dlrm_b_transformer", 0, 2.1e9, 0.021, 13.19e6, 0.0005},
      {"dlrm_b_moe", 0, 90e6, 0.047, 13.19e6, 0.0005},
      // A row of fp32 numbers for every token; positions are not looked up but added.
      {"gpt3_175b", 2048, 350e9, 0.026, 49.2e3, 0.001},
      {"llama_65b", 2048, 130.4e9, 0.019, 32.8e3, 0.001},
      {"llama2_70b", 4096, 140e9, 0.021, 32.8e3, 0.001},
      {"llm_moe_1.8t", 8192, 550e9, 0.041, 42.8e3, 0.001},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.model);
    const auto own = figures(c.model);
    EXPECT_EQ(own.tokens, c.tokens);
    const double flops = c.tokens > 0 ? own.flops_per_token().value : own.flops.value;
    EXPECT_GE(flops, c.flops * 0.9999);
    EXPECT_LE(flops, c.flops * (1 + c.more));
    const double lookups = c.tokens > 0 ? own.lookups_per_token().value : own.lookups.value;
    EXPECT_NEAR(lookups, c.lookups, c.tolerance * c.lookups);
  }
}

// Figure 3: DLRM-C has 12 T parameters. A DLRM looks up more than 20 times what a language model
// does for as much work.
TEST(ModelFigures, MatchDlrmC) {
  const auto own =
      figures("dlrm_a:tables=64,rows=732000000,dim=256,bag=20,bottom=4x560,top=4x560,dense=560");
  EXPECT_NEAR(static_cast<double>(own.parameters.at(LayerKind::kEmbedding)), 12e12, 0.01 * 12e12);
  EXPECT_DOUBLE_EQ(own.lookups.value, 4.0 * 64 * 20 * 256);
}

// "99.96 % of DLRM-A's parameters are tables"; "word embeddings are 0.37 % of GPT-3".
TEST(ModelFigures, MatchTheSharesOfKinds) {
  const auto dlrm = figures("dlrm_a").parameters;
  const auto tables = static_cast<double>(dlrm.at(LayerKind::kEmbedding));
  EXPECT_NEAR(tables / (tables + static_cast<double>(dlrm.at(LayerKind::kDense))), 0.9996, 0.00005);
  const auto gpt = figures("gpt3_175b").parameters;
  const auto words = static_cast<double>(gpt.at(LayerKind::kWordEmbedding));
  EXPECT_NEAR(words / (words + static_cast<double>(gpt.at(LayerKind::kTransformer))), 0.0037,
              0.00005);
}

// The sum of the kinds' parameters is that of the network.
TEST(ModelFigures, AddParametersOfKinds) {
  for (const auto* spec : models::all_models()) {
    const auto graph =
        models::parse_model(spec->name + ":" + models::small_models().at(spec->name).settings)
            .build(4, DType::kFp32);
    std::int64_t sum = 0;
    for (const auto& [kind, count] : compute_figures(graph, 4).parameters) sum += count;
    EXPECT_EQ(sum, models::count_parameters(graph)) << spec->name;
  }
}

TEST(ModelFigures, DoNotDependOnTheBatch) {
  const auto two = figures("gpt2:layers=2", 2);
  const auto eight = figures("gpt2:layers=2", 8);
  EXPECT_NEAR(two.flops / eight.flops, 1, 1e-5);  // the loss has a mean over the batch
  EXPECT_EQ(two.lookups, eight.lookups);
  EXPECT_EQ(2 * figures("gpt2:layers=2", 2, DType::kBf16).lookups.value, two.lookups.value);
}

TEST(ModelFigures, CountSamples) {
  EXPECT_EQ(count_samples(models::parse_model("gpt2:layers=1").build(6, DType::kFp32)), 6);
  EXPECT_EQ(count_samples(models::parse_model("dlrm_a").build(3, DType::kFp32)), 3);
}

}  // namespace
}  // namespace tandem::strategies

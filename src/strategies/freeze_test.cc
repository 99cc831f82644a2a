#include "strategies/freeze.h"

#include <gtest/gtest.h>

#include "base/error_test_support.h"
#include "models/model.h"
#include "models/small_models_test_support.h"

namespace tandem::strategies {
namespace {

graph::Graph build(const std::string& name) {
  return models::parse_model(name + ":" + models::small_models().at(name).settings)
      .build(4, DType::kFp32);
}

TEST(Freeze, AppliesByKindOfLayer) {
  for (const auto& [name, small] : models::small_models()) {
    SCOPED_TRACE(name);
    const auto model = build(name);
    const auto kinds = find_layer_kinds(model);
    for (auto kind : kLayerKinds) {
      std::size_t of_kind = 0;
      std::size_t weights = 0;
      for (auto id : model.ids()) {
        if (!is_weight(model.node(id))) continue;
        ++weights;
        of_kind += kinds[id.index()] == kind ? 1 : 0;
      }
      if (of_kind == 0 || of_kind == weights) {
        EXPECT_THROW((void)freeze(model, {kind}), UserError);
        continue;
      }
      const auto frozen = freeze(model, {kind});
      ASSERT_EQ(frozen.size(), model.size());
      for (auto id : model.ids()) {
        EXPECT_EQ(frozen.node(id).name, model.node(id).name);
        EXPECT_EQ(is_trained(frozen.node(id)),
                  is_weight(model.node(id)) && kinds[id.index()] != kind)
            << model.node(id).name;
      }
      EXPECT_NE(frozen.identity_hash(), model.identity_hash());
    }
  }
}

TEST(Freeze, FreezesTablesByDefault) {
  using enum LayerKind;
  EXPECT_EQ(list_default_frozen_kinds(build("dlrm_a")), std::vector{kEmbedding});
  EXPECT_EQ(list_default_frozen_kinds(build("gpt2")), std::vector{kWordEmbedding});
  EXPECT_EQ(list_default_frozen_kinds(build("resnet50")), std::vector<LayerKind>{});
}

TEST(Freeze, ReportsErrors) {
  EXPECT_EQ(parse_layer_kinds("dense, experts,dense"),
            (std::vector{LayerKind::kDense, LayerKind::kExperts}));
  EXPECT_EQ(get_error([] { parse_layer_kinds("dense,heads"); }),
            "--freeze: unknown layer kind 'heads' (expected one of: embedding, dense, transformer, "
            "experts, word_embedding)");
  EXPECT_EQ(get_error([] { parse_layer_kinds(","); }),
            "--freeze: unknown layer kind '' (expected one of: embedding, dense, transformer, "
            "experts, word_embedding)");
  EXPECT_EQ(get_error([] { freeze(build("mlp"), {LayerKind::kExperts}); }),
            "--freeze: mlp has no weights in experts layers (layer kinds with weights: dense)");
  EXPECT_EQ(get_error([] { freeze(build("mlp"), {LayerKind::kDense}); }),
            "--freeze: freezes all weights of mlp, so nothing is left to train (use --task "
            "inference instead)");
}

}  // namespace
}  // namespace tandem::strategies

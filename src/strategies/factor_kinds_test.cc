#include "strategies/factor_kinds.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/model.h"

namespace tandem::strategies {
namespace {

TEST(FactorKinds, CoverExpertsFromDispatchToCombine) {
  const auto model = models::parse_model(
      "mixtral_8x7b:layers=1,hidden=16,heads=4,kv_heads=4,ffn=8,vocab=9,seq=8,experts=4");
  const auto graph = model.build(8, DType::kFp32);
  const auto nodes = analyze(graph);
  std::size_t with_experts = 0;
  for (auto id : graph.ids()) {
    const auto& node = nodes[id.index()];
    for (ops::FactorId f = 0; f < node.kinds.size(); ++f) {
      if (node.kinds[f] != FactorKind::kExpert) continue;
      ++with_experts;
      EXPECT_EQ(node.signature.map.factors[f].size, 4) << graph.node(id).name;
    }
  }
  EXPECT_GE(with_experts, 4U);  // dispatch, two matmuls, combine
  const auto dense = models::parse_model("bert_large:layers=1").build(8, DType::kFp32);
  for (const auto& node : analyze(dense)) {
    EXPECT_EQ(std::ranges::find(node.kinds, FactorKind::kExpert), node.kinds.end());
  }
}

}  // namespace
}  // namespace tandem::strategies

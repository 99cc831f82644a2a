#include "report/plan_diff.h"

#include <gtest/gtest.h>

#include "report/explained_test_support.h"

namespace tandem::report {
namespace {

const char* const kTwoLayers = "mlp:layers=2,hidden=64,inputs=64,outputs=64";

std::vector<std::string> list_names(const std::vector<PlanDiff::ComparedProperty>& fields) {
  std::vector<std::string> out;
  for (const auto& field : fields) out.push_back(field.name);
  return out;
}

TEST(PlanDiff, IsEmptyForEqualPlans) {
  const auto dp = explain_plan(kTwoLayers, "local:2", 8, "dp");
  const auto diff = compare_plans(dp.view(), dp.view());
  EXPECT_TRUE(diff.is_same());
  EXPECT_EQ(diff_text(diff), "The plans are equal.\n");
  EXPECT_TRUE(diff_json(diff).at("same").get<bool>());
  for (const auto& figure : diff.figures) EXPECT_EQ(figure.a, figure.b) << figure.key;
}

TEST(PlanDiff, ListsOperatorsWithDifferentLayouts) {
  const auto dp = explain_plan(kTwoLayers, "local:2", 8, "dp");
  const auto tp = explain_plan(kTwoLayers, "local:2", 8, "megatron:tp=2");
  const auto diff = compare_plans(dp.view(), tp.view());
  EXPECT_FALSE(diff.is_same());
  EXPECT_TRUE(diff.same_graph);
  EXPECT_EQ(list_names(diff.header), std::vector<std::string>{"strategy"});
  EXPECT_TRUE(diff.schedule.empty());
  const auto first = std::ranges::find(diff.spread, "linear1", &PlanDiff::Spread::name);
  ASSERT_NE(first, diff.spread.end());
  EXPECT_EQ(first->a, "batch over process 2");
  EXPECT_EQ(first->b, "column-parallel (n) over process 2");
  // The reverse comparison swaps a and b.
  const auto back = compare_plans(tp.view(), dp.view());
  ASSERT_EQ(back.spread.size(), diff.spread.size());
  for (std::size_t i = 0; i < back.spread.size(); ++i) {
    EXPECT_EQ(back.spread[i].a, diff.spread[i].b);
    EXPECT_EQ(back.spread[i].b, diff.spread[i].a);
  }
}

TEST(PlanDiff, NamesIncomparableParts) {
  const auto small = explain_plan(kTwoLayers, "local:2", 8, "dp");
  const auto other =
      explain_plan("mlp:layers=3,hidden=64,inputs=64,outputs=64", "summit:1", 12, "dp");
  const auto diff = compare_plans(small.view(), other.view());
  const std::vector<std::string> expected = {"model", "machine", "batch"};
  EXPECT_EQ(list_names(diff.header), expected);
  EXPECT_FALSE(diff.same_graph);
  EXPECT_EQ(diff.notes.size(), 3U);
  EXPECT_TRUE(diff.only_a.empty());
  ASSERT_EQ(diff.only_b.size(), 3U);  // relu2, w3, linear3
  EXPECT_FALSE(diff_text(diff).empty());
}

TEST(PlanDiff, ListsDifferencesOfSchedules) {
  const auto once = explain_plan(kTwoLayers, "local:2", 8, "dp");
  const auto twice = explain_plan(kTwoLayers, "local:2", 8, "dp:micro=2");
  const auto diff = compare_plans(once.view(), twice.view());
  EXPECT_EQ(list_names(diff.schedule), std::vector<std::string>{"micro_batches"});
}

}  // namespace
}  // namespace tandem::report

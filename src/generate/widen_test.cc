#include "generate/widen.h"

#include <gtest/gtest.h>

#include "rewrite/rule_text.h"

namespace tandem::generate {
namespace {

GeneratedRule make_test_rule(const std::string& line, const std::vector<Shape>& shapes) {
  GeneratedRule out{rewrite::parse_rule(line)[0], {}};
  for (const auto& shape : shapes) {
    TensorType type;
    type.shape = ParallelShape(shape);
    out.found.tensors.push_back(type);
    out.found.below.push_back(0);
  }
  return out;
}

std::string widen_rule(const std::string& line, const std::vector<Shape>& shapes) {
  auto rule = make_test_rule(line, shapes);
  KernelCache kernels;
  free_attributes(rule, kernels);
  return rewrite::to_text(rule.rule);
}

TEST(Widen, ReplacesFreeAttributesBySymbols) {
  EXPECT_EQ(widen_rule("a: (relu (concat ?x ?y axis=0)) => (concat (relu ?x) (relu ?y) axis=0)",
                       {{2, 2}, {2, 2}}),
            "a: (relu (concat ?x ?y axis=?axis)) => (concat (relu ?x) (relu ?y) axis=?axis)");
  // The target's relu fixes the attribute `act`.
  const std::string fused = "b: (linear ?x ?w act=relu) => (relu (linear ?x ?w))";
  EXPECT_EQ(widen_rule(fused, {{2, 2}, {2, 2}}), fused);
  EXPECT_EQ(widen_rule("c: (linear ?x (add ?v ?w) act=relu) => (linear ?x (add ?w ?v) act=relu)",
                       {{2, 2}, {2, 2}, {2, 2}}),
            "c: (linear ?x (add ?v ?w) act=?act) => (linear ?x (add ?w ?v) act=?act)");
}

TEST(Widen, ExcludesFailuresByConditions) {
  KernelCache kernels;
  auto scaled = make_test_rule(
      "a: (mul (transpose ?x perm=[1, 0]) ?y) => (transpose (mul ?x ?y) perm=[1, 0])",
      {{4, 4}, {1}});
  ASSERT_TRUE(add_conditions(scaled, kernels));
  EXPECT_EQ(rewrite::to_text(scaled.rule),
            "a: (mul (transpose ?x perm=[1, 0]) ?y) => (transpose (mul ?x ?y) perm=[1, 0]) if "
            "dim(?y, 0) == 1");
  auto always = make_test_rule("b: (add ?x ?y) => (add ?y ?x)", {{4}, {4}});
  ASSERT_TRUE(add_conditions(always, kernels));
  EXPECT_TRUE(always.rule.conditions.empty());
  auto never = make_test_rule("c: (add ?x ?y) => (mul ?x ?y)", {{4}, {4}});
  EXPECT_FALSE(add_conditions(never, kernels));
}

}  // namespace
}  // namespace tandem::generate

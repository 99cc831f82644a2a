#include "verify/evaluate.h"

#include <gtest/gtest.h>

#include "rewrite/rule_text.h"
#include "verify/instances.h"
#include "verify/rule_typer.h"

namespace tandem::verify {
namespace {

Rule parse_line(const std::string& line) { return rewrite::parse_rule(line)[0]; }

Comparison first_difference(const Rule& rule, Refutation* refutation) {
  for (const auto& pattern : find_patterns(rule).all) {
    for (const auto& instance : list_small_instances(rule, pattern, 3, 30).all) {
      if (check_fit(rule, instance) != Fit::kBoth) continue;
      const auto found = compare(rule, instance, 1, 1, refutation);
      if (found != Comparison::kEqual) return found;
    }
  }
  return Comparison::kEqual;
}

// Compares with a closed form: 1*4 + 2*5 = 14.
TEST(Evaluate, ComputesPatterns) {
  const auto rule = parse_line("t: (matmul (relu ?x) ?y) => (matmul ?x ?y)");
  const Instance instance{{TensorType{ParallelShape{1, 3}}, TensorType{ParallelShape{3, 1}}}, {}};
  const auto side = type_side(rule.source, instance);
  ASSERT_TRUE(side.has_value());
  const Operands<double> operands = {Dense<double>({1, 3}, {1, 2, -7}),
                                     Dense<double>({3, 1}, {4, 5, 6})};
  EXPECT_EQ(evaluate(*side, operands)[0].data, std::vector<double>{14});
}

TEST(Evaluate, DistinguishesEqualFromUnequalSides) {
  const std::vector<std::pair<std::string, Comparison>> cases = {
      {"a: (matmul ?x (matmul ?y ?z)) => (matmul (matmul ?x ?y) ?z)", Comparison::kEqual},
      {"b: (relu (add ?x ?y)) => (add (relu ?x) (relu ?y))", Comparison::kDifferent},
      {"c: (sub ?x ?y) => (sub ?y ?x)", Comparison::kDifferent},
      {"d: (exp (add ?x ?y)) => (mul (exp ?x) (exp ?y))", Comparison::kDifferentInField},
      {"e: (matmul ?x (constant shape=[dim(?x, 1), dim(?x, 1)] kind=\"eye\" value=1)) => ?x if "
       "rank(?x) == 2",
       Comparison::kEqual},
      {"f: (embedding ?i ?w) => (scale (embedding ?i ?w) factor=1)", Comparison::kEqual},
      {"g: (add ?x ?y) => (reduce (join ?x ?y) degree=2) if same_shape(?x, ?y)",
       Comparison::kEqual},
  };
  for (const auto& [line, expected] : cases) {
    Refutation refutation;
    EXPECT_EQ(first_difference(parse_line(line), &refutation), expected) << line << refutation.what;
  }
}

TEST(Evaluate, ReportsPlaceAndValuesOfARefutation) {
  const auto rule = parse_line("t: (sub ?x ?y) => (sub ?y ?x)");
  const Instance instance{{TensorType{ParallelShape{1}}, TensorType{ParallelShape{1}}}, {}};
  Refutation refutation;
  ASSERT_EQ(compare(rule, instance, 1, 1, &refutation), Comparison::kDifferent);
  const auto text = to_text(rule, refutation);
  EXPECT_TRUE(text.starts_with("?x [1], ?y [1]: element [0] is ")) << text;
  EXPECT_NE(text.find(", with ?x = ["), std::string::npos) << text;
}

TEST(Evaluate, ChecksShards) {
  const auto rule = parse_line(
      "k: (reduce (matmul (partition ?x dim=1 degree=2) (partition ?w dim=0 degree=2)) degree=2) "
      "=> (matmul ?x ?w) if rank(?x) == 2");
  const Instance instance{{TensorType{ParallelShape{2, 4}}, TensorType{ParallelShape{4, 3}}}, {}};
  EXPECT_EQ(check_fit(rule, instance), Fit::kBoth);
  EXPECT_TRUE(shards_agree(rule, instance, 1));
}

}  // namespace
}  // namespace tandem::verify

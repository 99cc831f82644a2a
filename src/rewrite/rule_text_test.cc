#include "rewrite/rule_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error_test_support.h"

namespace tandem::rewrite {
namespace {

// A rule prints as it was written.
TEST(RuleText, RoundTripsText) {
  for (const std::string line : {
           "fuse-linear-relu: (relu (linear ?x ?w)) => (linear ?x ?w act=relu)",
           "associate: (matmul ?x (matmul ?y ?z)) => (matmul (matmul ?x ?y) ?z)",
           "split-relu: (relu ?x) => (combine (relu (partition ?x dim=?i degree=?d)) dim=?i "
           "degree=?d) choose ?i, ?d",
           "first: (split (concat ?x ?y axis=?a) axis=?a parts=2) => ?x if dim(?x, ?a) == dim(?y, "
           "?a)",
           "scale: (scale (scale ?x factor=?s) factor=?t) => (scale ?x factor=(?s * ?t))",
           "pool: (avg_pool2d ?x kernel=[?h, ?w] stride=?s) => (avg_pool2d ?x kernel=[?h, ?w] "
           "stride=?s) if not ?h == 2 and (?w == 1 or ?w < ?h - (1 - 2)) and 2 * (1 + ?h) <= 3",
           "norm: (layer_norm ?x ?w ?b eps=1e-06) => (layer_norm ?x ?w ?b eps=1e-06) if 1e+20 < "
           "rank(?x) + 1e-07",
           "two: (split ?x axis=0 parts=2), (split ?x axis=0 parts=2 part=1) => (split ?x axis=0 "
           "parts=2), (split ?x axis=0 parts=2 part=1)",
       }) {
    const auto rules = parse_rule(line);
    ASSERT_EQ(rules.size(), 1U) << line;
    EXPECT_EQ(parse_rule(to_text(rules[0]))[0], rules[0]) << to_text(rules[0]);
  }
  EXPECT_EQ(to_text(parse_rule("r:(relu(linear ?x ?w))=>(linear ?x ?w act=relu)if rank(?x)==2")[0]),
            "r: (relu (linear ?x ?w)) => (linear ?x ?w act=relu) if rank(?x) == 2");
}

// Small and large numbers are printed with an exponent. Its sign is no subtraction.
TEST(RuleText, AcceptsSignedExponents) {
  const auto rule = parse_rule(
      "a: (layer_norm ?x ?w ?b eps=0.000001) => (layer_norm ?x ?w ?b eps=1e-06) choose ?e "
      "if 1E+300 == ?e-1");
  EXPECT_EQ(rule[0].source.nodes[3], rule[0].target.nodes[3]);
}

TEST(RuleText, SharesNamedSubpatterns) {
  const auto rules = parse_rules(
      "# comment\n"
      "share: (linear ?x ?v), (linear ?x ?w) => (split ?c axis=1 parts=2),\n"
      "    (split ?c axis=1 parts=2 part=1)\n"
      "    where ?c = (linear ?x (concat ?v ?w axis=0)) if dim(?v, 0) == dim(?w, 0)\n"
      "back: (add ?x ?y) <=> (add ?y ?x)  # both ways\n");
  ASSERT_EQ(rules.size(), 3U);
  EXPECT_EQ(rules[0].source.operator_count(), 2U);
  EXPECT_EQ(rules[0].target.operator_count(), 4U);
  EXPECT_EQ(rules[2].name, "back-reversed");
}

TEST(RuleText, ReportsErrors) {
  const auto message = [](const std::string& line) {
    return get_error([&] { parse_rules(line, "x.rules"); });
  };
  std::string doubled = "a: (relu ?v0) => (relu ?v0) where ?v20 = (relu ?x)";
  for (int i = 0; i < 20; ++i) doubled += fmt::format(", ?v{} = (add ?v{} ?v{})", i, i + 1, i + 1);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a: (rellu ?x) => ?x", "rellu"},
      {"a: (relu ?x) => ?y", "?y is not bound by the source"},
      {"a: (linear ?x ?w act=relo) => ?x", "cannot be 'relo'"},
      {"a: (relu ?x bias=1) => ?x", "relu has no attribute 'bias'"},
      {"a: (relu ?x) => (relu ?x), ?x", "the source has 1 outputs, but the target has 2"},
      {"a: ?x => (relu ?x)", "an output of the source is a variable"},
      {"a: (concat ?x ?y axis=?a) => (concat ?x ?y axis=?b)", "?b is not bound"},
      {"a: (relu ?x) => ?x if size(?x) == 2", "unknown function 'size'"},
      {"a: (relu ?x => ?x", "expected a name"},
      {"a (relu ?x) => ?x", "expected 'name: source => target'"},
      {"a: (relu ?x) => ?x\na: (tanh ?x) => ?x", "the rule in line 1 already has this name"},
      {"where a: b  00", "'where a' is not a valid rule name"},
      {"a: ?b => ?b where 0", "expected '?'"},
      {doubled, "more than 4096 patterns in total"},
      {"a: (weight) => (weight)", "'weight' is not allowed in rules"},
  };
  for (const auto& [line, expected] : cases) {
    EXPECT_NE(message(line).find(expected), std::string::npos) << line << "\n" << message(line);
  }
}

// The kernel's size is that of a tensor which is mentioned later.
TEST(RuleText, ReadsSizesOfLaterTensors) {
  const std::string line =
      "a: (conv2d (constant shape=[dim(?x, 0), dim(?x, 0), 1, 1] value=1) ?x) => (relu ?x)";
  const auto rule = parse_rule(line)[0];
  EXPECT_EQ(rule.tensors, std::vector<std::string>{"x"});
  EXPECT_EQ(to_text(rule), line);
  EXPECT_NE(get_error([] {
              parse_rule("a: (constant shape=[dim(?x, 0)]) => (relu ?y)");
            }).find("dim takes a tensor, but ?x is not a tensor of the rule at ', 0)"),
            std::string::npos);
}

TEST(Expressions, ComputeOrHaveNoValue) {
  const TensorType matrix{ParallelShape{6, 4}};
  const TensorType* tensors[] = {&matrix};
  const std::optional<Value> symbols[] = {Value(std::int64_t{2})};
  const auto holds_for = [&](const std::string& condition) {
    const auto rule =
        parse_rule("a: (concat ?x ?x axis=?a) => (concat ?x ?x axis=?a) if " + condition)[0];
    return holds(rule.conditions[0], {tensors, symbols});
  };
  for (const auto* condition :
       {"dim(?x, 0) == 6", "dim(?x, 1) / 2 == ?a", "rank(?x) == ?a", "divides(?a, dim(?x, 0))",
        "not 3 / 2 == 1", "not dim(?x, 2) == dim(?x, 2)", "1 - 2 - 3 == -4", "7 % 4 == 3",
        "degree(?x, 0) == 1 or 1 == 2", "same_shape(?x, ?x)", "[1, ?a] == [1, 2]",
        "0.5 * 2 == 1"}) {
    EXPECT_TRUE(holds_for(condition)) << condition;
  }
}

}  // namespace
}  // namespace tandem::rewrite

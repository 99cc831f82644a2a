#include "rewrite/rule_family.h"

#include <gtest/gtest.h>

#include "base/error_test_support.h"
#include "rewrite/rule_text.h"

namespace tandem::rewrite {
namespace {

TEST(RuleFamily, ExpandsToOneRulePerNumberOfOperands) {
  const auto texts = expand_family(
      "r-{n}: (concat {i<n: (relu ?x{i})} axis=1) => "
      "{add i<n: (slice ?x{i} begin={+ j<i: dim(?x{j}, 1)})} "
      "if {and i<n: rank(?x{i}) == 2} for n in 1..3");
  ASSERT_EQ(texts.size(), 3U);
  EXPECT_EQ(texts[0], "r-1: (concat (relu ?x0) axis=1) => (slice ?x0 begin=0) if rank(?x0) == 2");
  EXPECT_EQ(
      texts[2],
      "r-3: (concat (relu ?x0) (relu ?x1) (relu ?x2) axis=1) => (add (add (slice ?x0 begin=0) "
      "(slice ?x1 begin=dim(?x0, 1))) (slice ?x2 begin=dim(?x0, 1)+dim(?x1, 1))) if rank(?x0) == 2 "
      "and rank(?x1) == 2 and rank(?x2) == 2");
}

TEST(RuleFamily, CountsFromTheGivenStart) {
  const auto texts = expand_family(
      "r-{n}: (relu {add k<2: (concat {k*n/2<=i<(k+1)*n/2: ?x{i}} axis={+ k*n/2<=i<n: {i}})}) => "
      "?x0 "
      "for n in 5..5");
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(
      texts[0],
      "r-5: (relu (add (concat ?x0 ?x1 axis=0+1+2+3+4) (concat ?x2 ?x3 ?x4 axis=2+3+4))) => ?x0");
}

TEST(RuleFamily, LeavesOtherTextAlone) {
  EXPECT_EQ(expand_family("a: (relu ?x) => ?x"), std::vector<std::string>{"a: (relu ?x) => ?x"});
}

TEST(RuleFamily, ExpandsToIndependentRules) {
  const auto rules = parse_rules(
      "a-{n}: (relu (concat {i<n: ?x{i}} axis=0)) =>\n"
      "    (concat {i<n: (relu ?x{i})} axis=0) for n in 2..4\n");
  ASSERT_EQ(rules.size(), 3U);
  EXPECT_EQ(rules[1].name, "a-3");
  EXPECT_EQ(rules[1].target.operator_count(), 4U);
}

TEST(RuleFamily, ReportsErrors) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a: (relu {i<n: ?x{i}) => ?x for n in 2..3", "'{' is not closed"},
      {"a: (relu {i<m: ?x{i}}) => ?x for n in 2..3", "unknown variable 'm'"},
      {"a: (relu ?x{j}) => ?x for n in 2..3", "unknown variable 'j'"},
      {"a: {n<n: ?x} => ?x for n in 2..3", "'n' is used as a counter twice"},
      {"a: {add i j<n: ?x} => ?x for n in 2..3", "is neither 'i<n' nor 'add i<n'"},
      {"a: {i: ?x} => ?x for n in 2..3", "is neither 'i<n' nor 'add i<n'"},
      {"a: {i<n: {add j<i: ?x}} => ?x for n in 2..3", "there is nothing to 'add'"},
      {"a: ?x => ?x for n in 2..1000000", "'2..1000000' is not a valid range"},
      {"a: ?x => ?x for n in 3..2", "'3..2' is not a valid range"},
      {"a: ?x => ?x for n 2..3", "does not have the form 'for n in 2..8'"},
      {"a: {i<n: {j<n: {k<n: {l<n: ?x}}}} => ?x for n in 64..64", "too long"},
      {"a: {i<n: {j<n: {k<n: {l<n: {m<n:}}}}} => ?x for n in 64..64", "too long"},
      {"a: (relu {i<n: ?x{i}}) => ?x0", "'{' requires a 'for'"},
      {"a: {i<n/0: ?x} => ?x for n in 2..3", "divides by 0"},
      {"a: {i<(n: ?x} => ?x for n in 2..3", "is not closed"},
      {"a: {i<n 2: ?x} => ?x for n in 2..3", "is not a number"},
      {"a: {i<n*n*n*n: ?x} => ?x for n in 64..64", "is out of range"},
  };
  for (const auto& wrong : cases) {
    const auto said = get_error([&] { expand_family(wrong.first); });
    EXPECT_NE(said.find(wrong.second), std::string::npos) << wrong.first << "\n" << said;
  }
}

}  // namespace
}  // namespace tandem::rewrite

// Operators are cut as rules say; those that no rule speaks of are named.
#include "check/cuts.h"

#include <gtest/gtest.h>

#include "graph/text.h"
#include "plan/random_choices_test_support.h"

namespace tandem::check {
namespace {

using plan::digits_of;
using plan::named_choices;

TEST(Cuts, ARuleForEveryFactorThatIsCut) {
  const auto digits = digits_of({2, 3});
  const auto model = graph::parse_graph(
      "graph m\n%x = input() shape=[6, 8]\n%w1 = weight() shape=[4, 8]\n"
      "%linear1 = linear(%x, %w1)\n%relu1 = relu(%linear1)\n%w2 = weight() shape=[2, 4]\n"
      "%linear2 = linear(%relu1, %w2)\n%t = input() shape=[6, 2]\n%loss = mse(%linear2, %t)\n"
      "return %loss\n");
  const auto mapped = plan::parallelize(
      model, digits,
      named_choices(model, digits, {{"linear1", "n d0"}, {"relu1", "d1 d0"}, {"linear2", "k d0"}}));
  const auto cuts = cuts_by_rules(mapped, digits);
  EXPECT_EQ(cuts.without, std::vector<std::string>{});
  for (const auto* rule : {"parallelize-linear-over-n", "parallelize-linear-over-batch",
                           "parallelize-relu", "parallelize-linear-over-k"}) {
    EXPECT_TRUE(cuts.rules.contains(rule)) << rule;
  }
  EXPECT_GE(cuts.steps, 6U);
  EXPECT_GE(cuts.operators, 3U);
}

// A loss has no dimensions of its own to be cut along.
TEST(Cuts, ALossIsCutAlongWhatItIsMadeFrom) {
  const auto digits = digits_of({2});
  const auto model = graph::parse_graph(
      "graph m\n%x = input() shape=[6, 8]\n%w = weight() shape=[4, 8]\n%y = linear(%x, %w)\n"
      "%t = input() shape=[6, 4]\n%loss = mse(%y, %t)\nreturn %loss\n");
  const auto mapped =
      plan::parallelize(model, digits, named_choices(model, digits, {{"y", "d0"}, {"loss", "d0"}}));
  const auto cuts = cuts_by_rules(mapped, digits);
  EXPECT_EQ(cuts.operators, 2U);
  EXPECT_EQ(cuts.without, std::vector<std::string>{});
  EXPECT_TRUE(cuts.rules.contains("parallelize-mse"));
}

// No rule cuts tanh, so far.
TEST(Cuts, WhatNoRuleCutsIsNamed) {
  const auto digits = digits_of({2});
  const auto model = graph::parse_graph(
      "graph m\n%x = input() shape=[4, 8]\n%w = weight() shape=[4, 8]\n"
      "%bent = tanh(%w)\n%y = mul(%x, %bent)\n%t = input() shape=[4, 8]\n"
      "%loss = mse(%y, %t)\nreturn %loss\n");
  const auto mapped =
      plan::parallelize(model, digits, named_choices(model, digits, {{"bent", "d0"}, {"y", "d1"}}));
  const auto cuts = cuts_by_rules(mapped, digits);
  EXPECT_EQ(cuts.without, std::vector<std::string>{"bent"});
  EXPECT_TRUE(cuts.rules.contains("parallelize-mul"));
}

}  // namespace
}  // namespace tandem::check

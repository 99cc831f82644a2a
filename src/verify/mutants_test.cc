#include "verify/mutants.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "rewrite/rule_text.h"

namespace tandem::verify {
namespace {

TEST(Mutants, DifferByOneTokenOfTheTarget) {
  const auto rule = rewrite::parse_rule("t: (split ?x axis=0 parts=2) => (add ?x (tanh ?x))")[0];
  std::vector<std::string> targets;
  for (const auto& mutant : make_mutants(rule)) {
    EXPECT_EQ(mutant.source, rule.source);
    targets.push_back(rewrite::to_text(mutant, mutant.target));
  }
  for (const auto* expected : {"(add (tanh ?x) ?x)", "(div ?x (tanh ?x))", "(add ?x (abs ?x))"}) {
    EXPECT_NE(std::ranges::find(targets, expected), targets.end()) << expected;
  }
  const auto scaled = rewrite::parse_rule("t: (relu ?x) => (split ?x axis=0 parts=2 part=1)")[0];
  EXPECT_GE(make_mutants(scaled).size(), 4U);
}

}  // namespace
}  // namespace tandem::verify

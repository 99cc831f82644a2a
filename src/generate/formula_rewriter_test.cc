#include "generate/formula_rewriter.h"

#include <gtest/gtest.h>

#include "generate/formulas_test_support.h"

namespace tandem::generate {
namespace {

class FormulaRewriterTest : public ThreeElementFormulas {};

TEST_F(FormulaRewriterTest, DerivesConsequences) {
  FormulaRewriter rewrite(table_, formulas_);
  const auto a = var(0);
  const auto b = var(1);
  const auto c = var(2);
  rewrite.add({{mul(a, add(b, c))}, {add(mul(a, b), mul(a, c))}});
  // (a + b)(c + a), multiplied out.
  const auto left = mul(add(a, b), add(c, a));
  const auto right = add(add(mul(a, c), mul(a, a)), add(mul(b, c), mul(b, a)));
  EXPECT_FALSE(rewrite.derives({{left}, {right}}, {.states = 1}));
  EXPECT_TRUE(rewrite.derives({{left}, {right}}, {}));
  // This is true, but does not follow from these rules.
  EXPECT_FALSE(rewrite.derives({{relu(relu(a))}, {relu(a)}}, {}));
  rewrite.add({{relu(relu(a))}, {relu(a)}});
  EXPECT_TRUE(rewrite.derives({{relu(relu(relu(b)))}, {relu(b)}}, {}));
}

}  // namespace
}  // namespace tandem::generate

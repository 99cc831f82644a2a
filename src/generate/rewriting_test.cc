#include "generate/rewriting.h"

#include <gtest/gtest.h>

#include "generate/formulas_test_support.h"

namespace tandem::generate {
namespace {

class Rewritings : public FormulasOfThree {};

TEST_F(Rewritings, DerivesWhatFollows) {
  Rewriting rewriting(table_, formulas_);
  const auto a = var(0);
  const auto b = var(1);
  const auto c = var(2);
  rewriting.add({{mul(a, add(b, c))}, {add(mul(a, b), mul(a, c))}});
  // (a + b)(c + a), multiplied out.
  const auto left = mul(add(a, b), add(c, a));
  const auto right = add(add(mul(a, c), mul(a, a)), add(mul(b, c), mul(b, a)));
  EXPECT_FALSE(rewriting.derives({{left}, {right}}, {.states = 1}));
  EXPECT_TRUE(rewriting.derives({{left}, {right}}, {}));
  // This is true, but does not follow from these rules.
  EXPECT_FALSE(rewriting.derives({{relu(relu(a))}, {relu(a)}}, {}));
  rewriting.add({{relu(relu(a))}, {relu(a)}});
  EXPECT_TRUE(rewriting.derives({{relu(relu(relu(b)))}, {relu(b)}}, {}));
}

}  // namespace
}  // namespace tandem::generate

#include "generate/equations.h"

#include <gtest/gtest.h>

#include "generate/formulas_test_support.h"

namespace tandem::generate {
namespace {

class Equations : public ThreeElementFormulas {};

TEST_F(Equations, ReplacesSharedPartsByVariables) {
  const auto a = var(0);
  const auto b = var(1);
  // relu(relu(a + b)) = relu(a + b) holds for any tensor in place of a + b.
  const auto sum = add(a, b);
  const auto general = normalize_equation(
      table_, formulas_, generalize_equation(formulas_, {{relu(relu(sum))}, {relu(sum)}}));
  EXPECT_EQ(general, (Equation{{relu(relu(a))}, {relu(a)}}));
  // b (a + a) = b a + b a holds for three different tensors.
  const auto distinct = normalize_equation(
      table_, formulas_,
      split_variables(formulas_, {{mul(b, add(a, a))}, {add(mul(b, a), mul(b, a))}}));
  EXPECT_EQ(formulas_.list_variables(distinct.left[0]).size(), 3U);
  EXPECT_TRUE(formulas_.are_equal(distinct.left[0], distinct.right[0]));
}

TEST_F(Equations, IgnoresNamesAndOrder) {
  const auto one = normalize_equation(
      table_, formulas_,
      {{mul(var(2), add(var(0), var(1)))}, {add(mul(var(0), var(2)), mul(var(2), var(1)))}});
  const auto other = normalize_equation(
      table_, formulas_,
      {{add(mul(var(3), var(1)), mul(var(1), var(2)))}, {mul(add(var(2), var(3)), var(1))}});
  EXPECT_EQ(one, other);
}

TEST_F(Equations, RejectsCoincidencesWithMoreValues) {
  const auto a = var(0);
  EXPECT_TRUE(holds_for_more_values(formulas_, {{relu(relu(a))}, {relu(a)}}));
  EXPECT_FALSE(holds_for_more_values(formulas_, {{relu(a)}, {a}}));
}

TEST_F(Equations, NeedsAllVariablesOnOneSide) {
  const auto a = var(0);
  const auto b = var(1);
  EXPECT_FALSE(is_unbound(formulas_, {{add(a, b)}, {add(b, a)}}));
  EXPECT_FALSE(is_unbound(formulas_, {{mul(a, b)}, {relu(a)}}));
  EXPECT_TRUE(is_unbound(formulas_, {{relu(a)}, {relu(b)}}));
}

}  // namespace
}  // namespace tandem::generate

#include "generate/pruning.h"

#include <gtest/gtest.h>

#include "generate/formulas_test_support.h"

namespace tandem::generate {
namespace {

class PruningTest : public ThreeElementFormulas {
 protected:
  std::vector<Equation> select_independent(const std::vector<Equation>& equations,
                                           unsigned threads) {
    Pruning pruning(table_, formulas_, threads);
    pruning.add_given(
        {{mul(var(0), add(var(1), var(2)))}, {add(mul(var(0), var(1)), mul(var(0), var(2)))}});
    return pruning.select_independent(equations, true, [](std::size_t) {});
  }
};

TEST_F(PruningTest, RetainsIndependentEquations) {
  const auto a = var(0);
  const auto b = var(1);
  const auto c = var(2);
  const Equation relu_twice = {{relu(relu(a))}, {relu(a)}};
  const std::vector<Equation> equations = {
      {{mul(add(a, b), c)}, {add(mul(c, a), mul(c, b))}},  // given
      relu_twice,
      {{relu(relu(relu(add(a, b))))}, {relu(add(a, b))}},  // follows from the one before
      {{relu(a)}, {a}},                                    // false
      {{add(a, add(b, a))}, {add(add(a, a), b)}},  // is less general than with three variables
  };
  const Equation three =
      normalize_equation(table_, formulas_, {{add(a, add(b, c))}, {add(add(a, c), b)}});
  EXPECT_EQ(select_independent(equations, 1), (std::vector{relu_twice, three}));
  EXPECT_EQ(select_independent(equations, 3), select_independent(equations, 1));
}

// In several batches, some equations are retained: answers that were computed ahead of these are
// dropped.
TEST_F(PruningTest, IsTheSameForAnyNumberOfThreads) {
  std::vector<FormulaId> made = {var(0), var(1), var(2)};
  for (const std::size_t below : {3, 16}) {
    for (std::size_t i = 0; i < below; ++i) {
      made.push_back(relu(made[i]));
      for (std::size_t j = 0; j < below; ++j) {
        made.push_back(add(made[j], made[i]));
        made.push_back(mul(made[i], made[j]));
      }
    }
  }
  std::vector<Equation> equations;
  for (std::size_t i = 0; i < made.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (made[i] != made[j] && formulas_.are_equal(made[i], made[j])) {
        equations.push_back({{made[i]}, {made[j]}});
      }
    }
  }
  ASSERT_GT(equations.size(), 100U);
  const auto one = select_independent(equations, 1);
  EXPECT_GT(one.size(), 2U);
  EXPECT_LT(one.size(), equations.size() / 2);
  for (const unsigned threads : {2, 3, 4}) EXPECT_EQ(select_independent(equations, threads), one);
}

}  // namespace
}  // namespace tandem::generate

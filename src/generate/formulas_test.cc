#include "generate/formulas.h"

#include <gtest/gtest.h>

#include "generate/formulas_test_support.h"

namespace tandem::generate {
namespace {

class FormulasTest : public ThreeElementFormulas {};

TEST_F(FormulasTest, StoresEqualFormulasOnce) {
  const auto sum = add(var(0), var(1));
  const auto size = formulas_.size();
  EXPECT_EQ(add(var(0), var(1)), sum);
  EXPECT_EQ(formulas_.size(), size);
  EXPECT_NE(add(var(1), var(0)), sum);
}

TEST_F(FormulasTest, ListsEachPartOnceAndOperandsFirst) {
  const auto sum = add(var(1), var(0));
  const auto formula = mul(sum, relu(sum));
  EXPECT_EQ(formulas_.list_parts(formula), (std::vector{var(1), var(0), sum, relu(sum), formula}));
  EXPECT_EQ(formulas_.list_variables(formula), (std::vector{var(1), var(0)}));
  // The sum is one operator, however often it is read.
  EXPECT_EQ(formulas_.operators(std::array{formula}), 3U);
  EXPECT_EQ(formulas_.operators(std::array{formula}), 3U);
  EXPECT_EQ(formulas_.operators(std::array{formula, sum, relu(var(0))}), 4U);
  EXPECT_EQ(formulas_.operators(std::array{var(0)}), 0U);
}

TEST_F(FormulasTest, ReplacesPartsEverywhere) {
  const auto sum = add(var(0), var(1));
  const auto formula = mul(sum, relu(sum));
  EXPECT_EQ(formulas_.replace(formula, {{sum, var(2)}}), mul(var(2), relu(var(2))));
  EXPECT_EQ(formulas_.replace(formula, {{var(0), var(1)}, {var(1), var(0)}}),
            mul(add(var(1), var(0)), relu(add(var(1), var(0)))));
  EXPECT_EQ(formulas_.replace(formula, {{var(3), var(0)}}), formula);
}

TEST_F(FormulasTest, ReturnsNothingForWrongTypes) {
  TensorType longer;
  longer.shape = ParallelShape({5});
  const auto other = formulas_.add_variable(table_.programs().type_id(longer), 0);
  EXPECT_EQ(formulas_.apply(0, std::array{var(0), other}), std::nullopt);
  EXPECT_EQ(formulas_.replace(add(var(0), var(1)), {{var(1), other}}), std::nullopt);
}

TEST_F(FormulasTest, DistinguishesFormulasByValues) {
  EXPECT_TRUE(formulas_.are_equal(add(var(0), var(1)), add(var(1), var(0))));
  EXPECT_TRUE(formulas_.are_equal(relu(relu(var(0))), relu(var(0))));
  EXPECT_FALSE(formulas_.are_equal(relu(var(0)), var(0)));
  EXPECT_FALSE(formulas_.are_equal(var(0), var(1)));
}

}  // namespace
}  // namespace tandem::generate

#include "generate/rewriting.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tandem::generate {
namespace {

// A table for its operations, and formulas over [3] tensors.
class Rewritings : public testing::Test {
 protected:
  TensorTable table_{parse_operator_set("tensors [3] 4\n(add ?x ?y)\n(mul ?x ?y)\n(relu ?x)"), 1};
  Formulas formulas_{table_.programs(), index_types(table_)};
  TypeId type_ = table_.programs().type_id(table_.variables()[0].type);

  FormulaId var(std::uint32_t n) { return formulas_.variable(type_, n); }
  FormulaId make(std::uint16_t operation, std::initializer_list<FormulaId> operands) {
    return *formulas_.apply(operation, std::span(operands.begin(), operands.size()));
  }
  FormulaId add(FormulaId a, FormulaId b) { return make(0, {a, b}); }
  FormulaId mul(FormulaId a, FormulaId b) { return make(1, {a, b}); }
  FormulaId relu(FormulaId a) { return make(2, {a}); }
};

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
  // True, but not by these rules.
  EXPECT_FALSE(rewriting.derives({{relu(relu(a))}, {relu(a)}}, {}));
  rewriting.add({{relu(relu(a))}, {relu(a)}});
  EXPECT_TRUE(rewriting.derives({{relu(relu(relu(b)))}, {relu(b)}}, {}));
}

TEST_F(Rewritings, AnEquationIsGeneralised) {
  const auto a = var(0);
  const auto b = var(1);
  // relu(relu(a + b)) = relu(a + b): a + b is any tensor.
  const auto sum = add(a, b);
  const auto general =
      normalised(table_, formulas_, generalised(formulas_, {{relu(relu(sum))}, {relu(sum)}}));
  EXPECT_EQ(general, (Equation{{relu(relu(a))}, {relu(a)}}));
  // b (a + a) = b a + b a: three different ones.
  const auto distinct = normalised(
      table_, formulas_,
      with_distinct_variables(formulas_, {{mul(b, add(a, a))}, {add(mul(b, a), mul(b, a))}}));
  EXPECT_EQ(formulas_.variables(distinct.left[0]).size(), 3U);
  EXPECT_TRUE(formulas_.equal(distinct.left[0], distinct.right[0]));
}

TEST_F(Rewritings, NamesAndOrdersDoNotMatter) {
  const auto one = normalised(
      table_, formulas_,
      {{mul(var(2), add(var(0), var(1)))}, {add(mul(var(0), var(2)), mul(var(2), var(1)))}});
  const auto other = normalised(
      table_, formulas_,
      {{add(mul(var(3), var(1)), mul(var(1), var(2)))}, {mul(add(var(2), var(3)), var(1))}});
  EXPECT_EQ(one, other);
}

}  // namespace
}  // namespace tandem::generate

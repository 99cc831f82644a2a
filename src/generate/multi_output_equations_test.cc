#include "generate/multi_output_equations.h"

#include <gtest/gtest.h>

#include "generate/formula_rewriter.h"
#include "generate/formulas_test_support.h"

namespace tandem::generate {
namespace {

class MultiOutputEquations : public FormulaFixture {
 protected:
  MultiOutputEquations()
      : FormulaFixture(R"(
tensors [4, 4] 4
(add ?x ?y)
(relu ?x)
(concat ?x ?y axis=0) if same_shape(?x, ?y)
(split ?x axis=0 parts=2), (split ?x axis=0 parts=2 part=1)
)") {}

  FormulaId relu(FormulaId a) { return make(1, {a}); }
  FormulaId concat(FormulaId a, FormulaId b) { return make(2, {a, b}); }
  std::vector<FormulaId> halves(FormulaId a) { return {make(3, {a}), make(4, {a})}; }

  std::vector<Equation> select_independent(const std::vector<Equation>& of_one_output,
                                           const std::vector<Equation>& several) {
    return select_independent_multi_output(table_, formulas_, of_one_output, several);
  }

  const FormulaId a_ = var(0);
  const FormulaId b_ = var(1);
  const FormulaId c_ = var(2);
  const FormulaId d_ = var(3);
  const Equation relus_ = {{relu(a_), relu(b_)}, halves(relu(concat(a_, b_)))};
  const Equation sums_ = {{add(a_, b_), add(c_, d_)}, halves(add(concat(a_, c_), concat(b_, d_)))};
};

TEST_F(MultiOutputEquations, AreFoundAmongEquations) {
  std::vector<Equation> equations;
  for (std::size_t o : {0, 1}) {
    // In the second equation the inner relu is on both sides, so it becomes a variable.
    const auto inner = relu(a_);
    const auto twice = halves(relu(concat(inner, b_)))[o];
    equations.push_back({{relus_.right[o]}, {relus_.left[o]}});
    equations.push_back({{twice}, {o == 0 ? relu(inner) : relu(b_)}});
    // The source of these has no operator, so they are no rules.
    equations.push_back({{halves(concat(a_, b_))[o]}, {o == 0 ? a_ : b_}});
  }
  EXPECT_EQ(find_multi_output_equations(formulas_, equations), std::vector{relus_});
}

TEST_F(MultiOutputEquations, AreDroppedIfTheyFollow) {
  EXPECT_EQ(select_independent({}, {sums_, relus_}), (std::vector{relus_, sums_}));
  // Three kinds of equations follow: with the same tensor twice, with other operands, and by an
  // equation of one output.
  const Equation doubled = {{add(a_, a_), add(b_, b_)},
                            halves(add(concat(a_, b_), concat(a_, b_)))};
  const Equation larger = {{relu(add(a_, b_)), relu(c_)}, halves(relu(concat(add(a_, b_), c_)))};
  EXPECT_EQ(select_independent({}, {doubled, sums_, larger, relus_}), (std::vector{relus_, sums_}));
  const Equation apart = {{relu(concat(a_, b_))}, {concat(relu(a_), relu(b_))}};
  const Equation four = {{relu(concat(a_, b_)), relu(concat(c_, d_))},
                         halves(concat(relu(concat(a_, b_)), relu(concat(c_, d_))))};
  EXPECT_EQ(select_independent({}, {four, relus_}), (std::vector{relus_, four}));
  EXPECT_EQ(select_independent({apart}, {four, relus_}), std::vector{relus_});
}

// These follow as equalities, because each half of a concatenation is one of its operands. No rule
// rewrites a graph with two relus to one with one relu, because no rule brings back the other
// operand.
TEST_F(MultiOutputEquations, AreRetainedIfNoRuleReachesThem) {
  const Equation first = {{halves(concat(a_, b_))[0]}, {a_}};
  const Equation second = {{halves(concat(a_, b_))[1]}, {b_}};
  const Equation apart = {{relu(concat(a_, b_))}, {concat(relu(a_), relu(b_))}};
  EXPECT_EQ(select_independent({first, second, apart}, {relus_}), std::vector{relus_});
}

// A tensor cannot be computed together with another that it is computed from.
TEST_F(MultiOutputEquations, DoNotDependOnEachOther) {
  FormulaRewriter rewrite(table_, formulas_);
  FormulaRewriter backward(table_, formulas_);
  rewrite.add(relus_);
  const Equation chain = {{relu(a_), relu(relu(a_))}, halves(relu(concat(a_, relu(a_))))};
  EXPECT_FALSE(rewrite.derives(chain, backward, {}));
}

}  // namespace
}  // namespace tandem::generate

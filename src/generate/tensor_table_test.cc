#include "generate/tensor_table.h"

#include <gtest/gtest.h>

namespace tandem::generate {
namespace {

// The numbers are counted by hand: a and b have 3 sums and 2 negations. At the second level -(-a)
// is a, and so on.
TEST(TensorTable, CountsDistinctTensors) {
  const auto set = parse_operator_set("tensors [3] 2\n(add ?x ?y) if same_shape(?x, ?y)\n(neg ?x)");
  TensorTable one(set, 1);
  one.fill(1, {});
  EXPECT_EQ(one.graphs(), 5U);    // a+a a+b b+b -a -b
  EXPECT_EQ(one.distinct(), 7U);  // these and a, b
  EXPECT_TRUE(one.equalities().empty());
  EXPECT_TRUE(one.commutes(0));
  TensorTable two(set, 2);
  two.fill(2, {});
  // -(x+y): 3; -(-x): 2, equal to x; (x+y)+z: 3 sums by 2, of which 2a+b and a+2b are found twice;
  // (x+y)+(x+y): 3; -x+y: 2 by 2, of which -a+a and -b+b are equal; -x+-x: 2, equal to -(x+x).
  EXPECT_EQ(two.graphs(), 5U + 3 + 2 + 6 + 3 + 4 + 2);
  EXPECT_EQ(two.equalities().size(), 2U + 2 + 1 + 2);
}

// relu of a tensor of one element equals the tensor or zero. A single draw would always confuse it
// with one.
TEST(TensorTable, DrawsEnoughValues) {
  TensorTable table(parse_operator_set("tensors [1] 2\n(relu ?x)\n(mul ?x ?y)"), 1);
  table.fill(1, {});
  EXPECT_TRUE(table.equalities().empty());
}

TEST(TensorTable, IsTheSameForAnyNumberOfThreads) {
  TensorTable one(operator_set("taso"), 1);
  TensorTable three(operator_set("taso"), 3);
  one.fill(2, {});
  three.fill(2, {});
  EXPECT_EQ(one.graphs(), three.graphs());
  EXPECT_EQ(one.distinct(), three.distinct());
  ASSERT_EQ(one.equalities().size(), three.equalities().size());
  for (std::size_t i = 0; i < one.equalities().size(); ++i) {
    EXPECT_EQ(one.equalities()[i].left, three.equalities()[i].left);
    EXPECT_EQ(one.equalities()[i].right, three.equalities()[i].right);
  }
}

}  // namespace
}  // namespace tandem::generate

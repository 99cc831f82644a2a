#include "generate/program.h"

#include <gtest/gtest.h>

#include "rewrite/rule_text.h"

namespace tandem::generate {
namespace {

TensorType make_type(std::initializer_list<std::int64_t> sizes) {
  TensorType out;
  out.shape = ParallelShape(Shape(sizes));
  return out;
}

TEST(Program, RunsItsNodesInOrder) {
  const auto rule =
      rewrite::parse_rule("t: (add (mul ?x ?y) (constant shape=[2, 3] value=7)) => (add ?x ?y)")[0];
  const auto type = make_type({2, 3});
  KernelCache kernels;
  const PatternProgram program(rule.source, rule.source.outputs[0], std::array{type, type}, {},
                               kernels);
  EXPECT_EQ(program.type(), type);
  ASSERT_EQ(program.size(), 6U);
  const auto x = draw_random_values(type, 0, 1, 0);
  const auto y = draw_random_values(type, 0, 2, 0);
  std::vector<Field> out(program.size());
  PatternProgram::EvaluationMemory memory;
  program.run(std::array{x.data(), y.data()}, out.data(), memory);
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], x[i] * y[i] + Field(7));
}

TEST(Programs, RejectWrongTypesAndLargeResults) {
  Programs programs(parse_operator_set("tensors [2, 2] 1\n(matmul ?x ?y)").operations, 10);
  const auto small = programs.type_id(make_type({2, 3}));
  const auto other = programs.type_id(make_type({3, 4}));
  const auto large = programs.type_id(make_type({3, 9}));
  EXPECT_EQ(programs.type_id(make_type({2, 3})), small);
  EXPECT_EQ(programs.find_known(0, std::array{small, other}), nullptr);
  const auto* matmul = programs.find(0, std::array{small, other});
  ASSERT_NE(matmul, nullptr);
  EXPECT_EQ(programs.type(matmul->type_id()), make_type({2, 4}));
  EXPECT_EQ(programs.find_known(0, std::array{small, other}), matmul);
  EXPECT_EQ(programs.find(0, std::array{other, small}), nullptr);
  EXPECT_EQ(programs.find(0, std::array{small, large}), nullptr);  // 18 elements
}

TEST(Program, DrawsValuesOfBothSigns) {
  std::size_t below = 0;
  for (std::size_t draw = 0; draw < kDraws; ++draw) {
    for (auto v : draw_random_values(make_type({100}), 0, 3, draw)) {
      below += term::Numbers<Field>::greater(Field(0), v) ? 1 : 0;
    }
  }
  EXPECT_GT(below, 100U);
  EXPECT_LT(below, 100 * kDraws - 100U);
  EXPECT_EQ(draw_random_values(make_type({4}), 0, 3, 1),
            draw_random_values(make_type({4}), 0, 3, 1));
  EXPECT_NE(draw_random_values(make_type({4}), 0, 3, 1),
            draw_random_values(make_type({4}), 0, 4, 1));
}

}  // namespace
}  // namespace tandem::generate

#include "rewrite/expression.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace tandem::rewrite {
namespace {

const std::array kOperands = {
    Expression{.literal = std::int64_t{0}},
    Expression{.literal = std::int64_t{-1}},
    Expression{.literal = std::int64_t{3}},
    Expression{.literal = std::numeric_limits<std::int64_t>::max()},
    Expression{.literal = std::numeric_limits<std::int64_t>::min()},
    Expression{.literal = 2.5},
    Expression{.literal = std::string("relu")},
    Expression{.literal = std::vector<std::int64_t>{1, 1}},
    Expression{.operation = Operation::kSymbol, .variables = {0}},  // 2
    Expression{.operation = Operation::kSymbol, .variables = {1}},  // not bound
    Expression{.operation = Operation::kSymbol, .variables = {2}},  // "relu"
    Expression{.operation = Operation::kSymbol, .variables = {9}},
    Expression{.operation = Operation::kRank, .variables = {0}},
    Expression{.operation = Operation::kRank, .variables = {1}},  // not bound
    Expression{.operation = Operation::kPartial, .variables = {0}},
    Expression{.operation = Operation::kReplicas, .variables = {0}},
};

// Returns all operands and all operations on two of them.
std::vector<Expression> numbers() {
  std::vector<Expression> out(kOperands.begin(), kOperands.end());
  for (auto of : {Operation::kDim, Operation::kDegree}) {
    for (std::uint16_t tensor : {0, 1}) {
      for (const auto& index : kOperands) {
        out.push_back(make_expression(of, index));
        out.back().variables = {tensor};
      }
    }
  }
  for (auto of : {Operation::kAdd, Operation::kSubtract, Operation::kMultiply, Operation::kDivide,
                  Operation::kRemainder}) {
    for (const auto& a : kOperands) {
      for (const auto& b : kOperands) out.push_back(make_expression(of, a, b));
    }
  }
  return out;
}

// Comparisons of integers are evaluated without building values. The result must equal that with
// values.
TEST(Expression, EvaluatesConditions) {
  const TensorType type{ParallelShape(Shape{4, 6, 1})};
  const std::array<const TensorType*, 2> tensors = {&type, nullptr};
  const std::array<std::optional<Value>, 3> symbols = {Value(std::int64_t{2}), std::nullopt,
                                                       Value(std::string("relu"))};
  const Bindings bindings{tensors, symbols};
  const auto all = numbers();
  std::size_t true_ones = 0;
  for (auto of : {Operation::kEqual, Operation::kNotEqual, Operation::kLess, Operation::kAtMost,
                  Operation::kDivides}) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t j = i % 7; j < all.size(); j += 7) {
        const auto condition = make_expression(of, all[i], all[j]);
        const bool is_true = evaluate(condition, bindings) == Value(std::string("true"));
        EXPECT_EQ(holds(condition, bindings), is_true) << i << " " << j;
        EXPECT_EQ(holds(make_expression(Operation::kNot, condition), bindings), !is_true);
        true_ones += is_true ? 1 : 0;
      }
    }
  }
  EXPECT_GT(true_ones, 1000U);
}

}  // namespace
}  // namespace tandem::rewrite

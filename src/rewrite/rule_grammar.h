// The operators and functions of expressions in rules, shared by the reader and the writer.
#pragma once

#include <array>
#include <string_view>

#include "rewrite/expression.h"

namespace tandem::rewrite {

struct Infix {
  std::string_view text;
  Operation operation;
  int precedence;
};
// Longer texts come first, so that <= is not read as <.
inline constexpr std::array kInfix = {
    Infix{"or", Operation::kOr, 1},       Infix{"and", Operation::kAnd, 2},
    Infix{"==", Operation::kEqual, 4},    Infix{"!=", Operation::kNotEqual, 4},
    Infix{"<=", Operation::kAtMost, 4},   Infix{"<", Operation::kLess, 4},
    Infix{"+", Operation::kAdd, 5},       Infix{"-", Operation::kSubtract, 5},
    Infix{"*", Operation::kMultiply, 6},  Infix{"/", Operation::kDivide, 6},
    Infix{"%", Operation::kRemainder, 6},
};
// Precedences of `not` and of a minus with one operand.
inline constexpr int kOfNot = 3;
inline constexpr int kOfMinus = 7;

// A function of `tensors` tensors, followed by `numbers` numbers.
struct ExpressionFunction {
  std::string_view name;
  Operation operation;
  std::size_t tensors;
  std::size_t numbers;
};
inline constexpr std::array kFunctions = {
    ExpressionFunction{"dim", Operation::kDim, 1, 1},
    ExpressionFunction{"degree", Operation::kDegree, 1, 1},
    ExpressionFunction{"rank", Operation::kRank, 1, 0},
    ExpressionFunction{"replicas", Operation::kReplicas, 1, 0},
    ExpressionFunction{"partial", Operation::kPartial, 1, 0},
    ExpressionFunction{"same_shape", Operation::kSameShape, 2, 0},
    ExpressionFunction{"divides", Operation::kDivides, 0, 2},
};

}  // namespace tandem::rewrite

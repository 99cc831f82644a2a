// Expressions of a rule: values of attributes, computations with sizes, and conditions on them.
//
//   axis=?a   size=dim(?x, 0) - ?b   kernel=[dim(?w, 2), dim(?w, 3)]   if divides(?d, dim(?x, 1))
//
// A symbol ?a stands for the value of an attribute. A tensor variable ?x stands for a tensor, of
// which only the type is used. An expression that cannot be computed, such as dim(?x, 5) of a
// matrix or 3 / 2, has no value. A rule that needs it does not apply.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "tensor/tensor_type.h"

namespace tandem::rewrite {

// The value of an attribute. A truth value is the text "true" or "false", as in attributes.
using Value = std::variant<std::int64_t, double, std::vector<std::int64_t>, std::string>;

// Returns the value of `text`, which is written as in graphs: 3, 0.5, [1, 1], relu.
Value parse_value(std::string_view text);
std::string to_text(const Value& value);
Hash compute_hash(const Value& value);

enum class Operation : std::uint8_t {
  kLiteral,
  kSymbol,  // the value of an attribute
  kList,    // [a, b] of integers
  kDim,     // dim(?x, i): a global size
  kRank,
  kDegree,  // degree(?x, i): the number of shards along dimension i
  kReplicas,
  kPartial,
  kSameShape,  // same_shape(?x, ?y): equal global sizes
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,     // for integers only if the remainder is 0
  kRemainder,  // a % b
  kNegate,
  kEqual,
  kNotEqual,
  kLess,
  kAtMost,
  kDivides,  // divides(d, n): n is a multiple of d
  kAnd,
  kOr,
  kNot,
};

struct Expression {
  Operation operation = Operation::kLiteral;
  Value literal = std::int64_t{0};
  std::vector<std::uint16_t> variables = {};  // the symbol, or the tensors of a function
  std::vector<Expression> operands = {};

  bool operator==(const Expression&) const = default;
};
// Return an expression with these operands, which are moved. An initializer list would copy the
// operands with all their parts.
Expression make_expression(Operation operation, Expression operand);
Expression make_expression(Operation operation, Expression left, Expression right);

// The values of variables, by their numbers in the rule. A null type or an empty optional means
// that the variable is not bound yet.
struct Bindings {
  std::span<const TensorType* const> tensors;
  std::span<const std::optional<Value>> symbols;
};

// Returns the value of `expression`, or nullopt if it cannot be computed.
std::optional<Value> evaluate(const Expression& expression, const Bindings& bindings);
// Returns whether `condition` can be computed and is true.
bool holds(const Expression& condition, const Bindings& bindings);

// Calls visit(part) for `expression` and all its parts.
template <class Visit>
void for_each_part(const Expression& expression, Visit&& visit) {
  visit(expression);
  for (const auto& operand : expression.operands) for_each_part(operand, visit);
}

// Calls visit(symbol) for each symbol that an attribute of a source binds. A symbol is bound if it
// is the whole attribute or an element of a list: ?a and [?a, ?b] bind, ?a + 1 does not.
template <class Visit>
void for_each_binder(const Expression& attribute, Visit&& visit) {
  if (attribute.operation == Operation::kSymbol) visit(attribute.variables[0]);
  if (attribute.operation != Operation::kList) return;
  for (const auto& item : attribute.operands) {
    if (item.operation == Operation::kSymbol) visit(item.variables[0]);
  }
}

}  // namespace tandem::rewrite

// What a rule computes: values of attributes, of sizes, and conditions on them.
//
//   axis=?a   size=dim(?x, 0) - ?b   kernel=[dim(?w, 2), dim(?w, 3)]   if divides(?d, dim(?x, 1))
//
// A symbol ?a stands for the value of an attribute, a tensor variable ?x for a tensor; only the
// tensor's type is looked at. What cannot be computed (dim(?x, 5) of a matrix, 3 / 2) has no value,
// and a rule that needs it does not apply.
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

// Of an attribute. A truth value is the text "true" or "false", as in attributes.
using Value = std::variant<std::int64_t, double, std::vector<std::int64_t>, std::string>;

// As graphs write attributes: 3, 0.5, [1, 1], relu.
Value parse_value(std::string_view text);
std::string to_text(const Value& value);
Hash hash_of(const Value& value);

enum class Operation : std::uint8_t {
  kLiteral,
  kSymbol,  // the value of an attribute
  kList,    // [a, b] of whole numbers
  kDim,     // dim(?x, i): a global size
  kRank,
  kDegree,  // degree(?x, i): into how many parts dimension i is cut
  kReplicas,
  kPartial,
  kSameShape,  // same_shape(?x, ?y): of the global sizes
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,     // of whole numbers only where nothing is left
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
  std::vector<std::uint16_t> variables =
      {};  // kSymbol: the symbol; of tensor functions: the tensors
  std::vector<Expression> operands = {};

  bool operator==(const Expression&) const = default;
};
// Of operands, which are moved; a list of initial values would copy them with all their parts.
Expression expression_of(Operation operation, Expression operand);
Expression expression_of(Operation operation, Expression left, Expression right);

// What variables stand for, by their numbers in the rule. A null type or an empty optional is not
// bound yet.
struct Bindings {
  std::span<const TensorType* const> tensors;
  std::span<const std::optional<Value>> symbols;
};

std::optional<Value> evaluate(const Expression& expression, const Bindings& bindings);
// Is it computable, and true?
bool holds(const Expression& condition, const Bindings& bindings);

// Calls visit(expression) on it and all its parts.
template <class Visit>
void for_each_part(const Expression& expression, Visit&& visit) {
  visit(expression);
  for (const auto& operand : expression.operands) for_each_part(operand, visit);
}

// Calls visit(symbol) for those that an attribute of a source binds: of ?a and [?a, ?b], where a
// symbol stands alone or alone in a list, not of ?a + 1.
template <class Visit>
void for_each_binder(const Expression& attribute, Visit&& visit) {
  if (attribute.operation == Operation::kSymbol) visit(attribute.variables[0]);
  if (attribute.operation != Operation::kList) return;
  for (const auto& item : attribute.operands) {
    if (item.operation == Operation::kSymbol) visit(item.variables[0]);
  }
}

}  // namespace tandem::rewrite

#include "rewrite/expression.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/fields.h"

namespace tandem::rewrite {

namespace {

using Result = std::optional<Value>;

Value truth(bool value) { return std::string(value ? "true" : "false"); }

const std::int64_t* as_integer(const Result& value) {
  return value ? std::get_if<std::int64_t>(&*value) : nullptr;
}

std::optional<double> as_number(const Result& value) {
  if (!value) return std::nullopt;
  if (const auto* i = std::get_if<std::int64_t>(&*value)) return static_cast<double>(*i);
  if (const auto* d = std::get_if<double>(&*value)) return *d;
  return std::nullopt;
}

// A real number that is whole is a whole number, as in an attribute's text.
Result number(double value) {
  constexpr double kExact = 1e15;
  if (value == std::floor(value) && std::abs(value) < kExact) {
    return Value(static_cast<std::int64_t>(value));
  }
  return Value(value);
}

Result whole(Operation operation, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  switch (operation) {
    case Operation::kAdd:
      if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
      return Value(out);
    case Operation::kSubtract:
      if (__builtin_sub_overflow(a, b, &out)) return std::nullopt;
      return Value(out);
    case Operation::kMultiply:
      if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
      return Value(out);
    case Operation::kDivide:
      if (b == 0 || b == -1 || a % b != 0) return std::nullopt;
      return Value(a / b);
    case Operation::kRemainder:
      if (b == 0 || b == -1) return std::nullopt;
      return Value(a % b);
    case Operation::kDivides:
      if (a == 0 || a == -1) return std::nullopt;
      return truth(b % a == 0);
    case Operation::kLess:
      return truth(a < b);
    case Operation::kAtMost:
      return truth(a <= b);
    default:
      return std::nullopt;
  }
}

Result real(Operation operation, double a, double b) {
  switch (operation) {
    case Operation::kAdd:
      return number(a + b);
    case Operation::kSubtract:
      return number(a - b);
    case Operation::kMultiply:
      return number(a * b);
    case Operation::kDivide:
      return b == 0 ? std::nullopt : number(a / b);
    case Operation::kLess:
      return truth(a < b);
    case Operation::kAtMost:
      return truth(a <= b);
    default:
      return std::nullopt;
  }
}

const TensorType* tensor(const Expression& e, const Bindings& bindings, std::size_t i = 0) {
  const auto at = e.variables[i];
  return at < bindings.tensors.size() ? bindings.tensors[at] : nullptr;
}

Result of_dimension(const Expression& e, const Bindings& bindings) {
  const auto* type = tensor(e, bindings);
  const auto index = evaluate(e.operands[0], bindings);
  const auto* i = as_integer(index);
  if (type == nullptr || i == nullptr || *i < 0 ||
      *i >= static_cast<std::int64_t>(type->shape.rank())) {
    return std::nullopt;
  }
  const auto& of = e.operation == Operation::kDim ? type->shape.sizes : type->shape.degrees;
  return Value(of[static_cast<std::size_t>(*i)]);
}

Result of_tensor(const Expression& e, const Bindings& bindings) {
  const auto* type = tensor(e, bindings);
  if (type == nullptr) return std::nullopt;
  switch (e.operation) {
    case Operation::kRank:
      return Value(static_cast<std::int64_t>(type->shape.rank()));
    case Operation::kReplicas:
      return Value(type->shape.replicas);
    case Operation::kPartial:
      return Value(type->shape.partial);
    default: {
      const auto* other = tensor(e, bindings, 1);
      if (other == nullptr) return std::nullopt;
      return truth(type->shape.sizes == other->shape.sizes);
    }
  }
}

Result list(const Expression& e, const Bindings& bindings) {
  std::vector<std::int64_t> out;
  for (const auto& operand : e.operands) {
    const auto value = evaluate(operand, bindings);
    const auto* i = as_integer(value);
    if (i == nullptr) return std::nullopt;
    out.push_back(*i);
  }
  return Value(std::move(out));
}

Result logical(const Expression& e, const Bindings& bindings) {
  const bool first = holds(e.operands[0], bindings);
  if (e.operation == Operation::kNot) return truth(!first);
  if (e.operation == Operation::kAnd) return truth(first && holds(e.operands[1], bindings));
  return truth(first || holds(e.operands[1], bindings));
}

Result binary(const Expression& e, const Bindings& bindings) {
  const auto a = evaluate(e.operands[0], bindings);
  const auto b = evaluate(e.operands[1], bindings);
  if (!a || !b) return std::nullopt;
  if (e.operation == Operation::kEqual) return truth(*a == *b);
  if (e.operation == Operation::kNotEqual) return truth(*a != *b);
  const auto* i = as_integer(a);
  const auto* j = as_integer(b);
  if (i != nullptr && j != nullptr) return whole(e.operation, *i, *j);
  const auto x = as_number(a);
  const auto y = as_number(b);
  return x && y ? real(e.operation, *x, *y) : std::nullopt;
}

Result negated(const Expression& e, const Bindings& bindings) {
  const auto value = evaluate(e.operands[0], bindings);
  if (const auto* i = as_integer(value)) {
    if (*i == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
    return Value(-*i);
  }
  const auto x = as_number(value);
  return x ? Result(-*x) : std::nullopt;
}

}  // namespace

Expression expression_of(Operation operation, Expression operand) {
  Expression out{.operation = operation};
  out.operands.push_back(std::move(operand));
  return out;
}

Expression expression_of(Operation operation, Expression left, Expression right) {
  Expression out{.operation = operation};
  out.operands.reserve(2);
  out.operands.push_back(std::move(left));
  out.operands.push_back(std::move(right));
  return out;
}

Value parse_value(std::string_view text) {
  if (const auto i = parse_int(text)) return *i;
  if (const auto d = parse_double(text)) return *d;
  std::vector<std::int64_t> items;
  if (parse_attribute(text, items)) return items;
  return std::string(text);
}

std::string to_text(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* i = std::get_if<std::int64_t>(&value)) return attribute_text(*i);
  if (const auto* d = std::get_if<double>(&value)) return attribute_text(*d);
  return attribute_text(std::get<std::vector<std::int64_t>>(value));
}

Hash hash_of(const Value& value) {
  const Hash kind = mix(value.index());
  if (const auto* text = std::get_if<std::string>(&value)) {
    return hash_combine(kind, hash_text(*text));
  }
  if (const auto* i = std::get_if<std::int64_t>(&value)) {
    return hash_combine(kind, static_cast<Hash>(*i));
  }
  if (const auto* d = std::get_if<double>(&value)) {
    return hash_combine(kind, std::bit_cast<Hash>(*d));
  }
  Hash h = kind;
  for (auto item : std::get<std::vector<std::int64_t>>(value)) {
    h = hash_combine(h, static_cast<Hash>(item));
  }
  return h;
}

std::optional<Value> evaluate(const Expression& e, const Bindings& bindings) {
  switch (e.operation) {
    case Operation::kLiteral:
      return e.literal;
    case Operation::kSymbol:
      return e.variables[0] < bindings.symbols.size() ? bindings.symbols[e.variables[0]]
                                                      : std::nullopt;
    case Operation::kList:
      return list(e, bindings);
    case Operation::kDim:
    case Operation::kDegree:
      return of_dimension(e, bindings);
    case Operation::kRank:
    case Operation::kReplicas:
    case Operation::kPartial:
    case Operation::kSameShape:
      return of_tensor(e, bindings);
    case Operation::kAnd:
    case Operation::kOr:
    case Operation::kNot:
      return logical(e, bindings);
    case Operation::kNegate:
      return negated(e, bindings);
    default:
      return binary(e, bindings);
  }
}

bool holds(const Expression& condition, const Bindings& bindings) {
  const auto value = evaluate(condition, bindings);
  const auto* text = value ? std::get_if<std::string>(&*value) : nullptr;
  return text != nullptr && *text == "true";
}

}  // namespace tandem::rewrite

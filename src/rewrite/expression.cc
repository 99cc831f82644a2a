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

Value to_truth_value(bool value) { return std::string(value ? "true" : "false"); }

const std::int64_t* as_integer(const Result& value) {
  return value ? std::get_if<std::int64_t>(&*value) : nullptr;
}

std::optional<double> as_number(const Result& value) {
  if (!value) return std::nullopt;
  if (const auto* i = std::get_if<std::int64_t>(&*value)) return static_cast<double>(*i);
  if (const auto* d = std::get_if<double>(&*value)) return *d;
  return std::nullopt;
}

// Returns `value` as an integer if it is one, as in the text of an attribute.
Result to_number(double value) {
  constexpr double kExact = 1e15;
  if (value == std::floor(value) && std::abs(value) < kExact) {
    return Value(static_cast<std::int64_t>(value));
  }
  return Value(value);
}

std::optional<std::int64_t> compute_arithmetic(Operation operation, std::int64_t a,
                                               std::int64_t b) {
  std::int64_t out = 0;
  switch (operation) {
    case Operation::kAdd:
      return __builtin_add_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    case Operation::kSubtract:
      return __builtin_sub_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    case Operation::kMultiply:
      return __builtin_mul_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    case Operation::kDivide:
      return b == 0 || b == -1 || a % b != 0 ? std::nullopt : std::optional(a / b);
    case Operation::kRemainder:
      return b == 0 || b == -1 ? std::nullopt : std::optional(a % b);
    default:
      return std::nullopt;
  }
}

std::optional<bool> compare_integers(Operation operation, std::int64_t a, std::int64_t b) {
  switch (operation) {
    case Operation::kEqual:
      return a == b;
    case Operation::kNotEqual:
      return a != b;
    case Operation::kDivides:
      return a == 0 || a == -1 ? std::nullopt : std::optional(b % a == 0);
    case Operation::kLess:
      return a < b;
    case Operation::kAtMost:
      return a <= b;
    default:
      return std::nullopt;
  }
}

Result evaluate_integer_operation(Operation operation, std::int64_t a, std::int64_t b) {
  if (const auto number = compute_arithmetic(operation, a, b)) return Value(*number);
  const auto is = compare_integers(operation, a, b);
  return is ? Result(to_truth_value(*is)) : std::nullopt;
}

Result evaluate_real_operation(Operation operation, double a, double b) {
  switch (operation) {
    case Operation::kAdd:
      return to_number(a + b);
    case Operation::kSubtract:
      return to_number(a - b);
    case Operation::kMultiply:
      return to_number(a * b);
    case Operation::kDivide:
      return b == 0 ? std::nullopt : to_number(a / b);
    case Operation::kLess:
      return to_truth_value(a < b);
    case Operation::kAtMost:
      return to_truth_value(a <= b);
    default:
      return std::nullopt;
  }
}

const TensorType* find_bound_type(const Expression& e, const Bindings& bindings,
                                  std::size_t i = 0) {
  const auto at = e.variables[i];
  return at < bindings.tensors.size() ? bindings.tensors[at] : nullptr;
}

Result evaluate_dimension(const Expression& e, const Bindings& bindings) {
  const auto* type = find_bound_type(e, bindings);
  const auto index = evaluate(e.operands[0], bindings);
  const auto* i = as_integer(index);
  if (type == nullptr || i == nullptr || *i < 0 ||
      *i >= static_cast<std::int64_t>(type->shape.rank())) {
    return std::nullopt;
  }
  const auto& of = e.operation == Operation::kDim ? type->shape.sizes : type->shape.degrees;
  return Value(of[static_cast<std::size_t>(*i)]);
}

Result evaluate_tensor_function(const Expression& e, const Bindings& bindings) {
  const auto* type = find_bound_type(e, bindings);
  if (type == nullptr) return std::nullopt;
  switch (e.operation) {
    case Operation::kRank:
      return Value(static_cast<std::int64_t>(type->shape.rank()));
    case Operation::kReplicas:
      return Value(type->shape.replicas);
    case Operation::kPartial:
      return Value(type->shape.partial);
    default: {
      const auto* other = find_bound_type(e, bindings, 1);
      if (other == nullptr) return std::nullopt;
      return to_truth_value(type->shape.sizes == other->shape.sizes);
    }
  }
}

Result evaluate_list(const Expression& e, const Bindings& bindings) {
  std::vector<std::int64_t> out;
  for (const auto& operand : e.operands) {
    const auto value = evaluate(operand, bindings);
    const auto* i = as_integer(value);
    if (i == nullptr) return std::nullopt;
    out.push_back(*i);
  }
  return Value(std::move(out));
}

Result evaluate_binary(const Expression& e, const Bindings& bindings) {
  const auto a = evaluate(e.operands[0], bindings);
  const auto b = evaluate(e.operands[1], bindings);
  if (!a || !b) return std::nullopt;
  if (e.operation == Operation::kEqual) return to_truth_value(*a == *b);
  if (e.operation == Operation::kNotEqual) return to_truth_value(*a != *b);
  const auto* i = as_integer(a);
  const auto* j = as_integer(b);
  if (i != nullptr && j != nullptr) return evaluate_integer_operation(e.operation, *i, *j);
  const auto x = as_number(a);
  const auto y = as_number(b);
  return x && y ? evaluate_real_operation(e.operation, *x, *y) : std::nullopt;
}

Result evaluate_negation(const Expression& e, const Bindings& bindings) {
  const auto value = evaluate(e.operands[0], bindings);
  if (const auto* i = as_integer(value)) {
    if (*i == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
    return Value(-*i);
  }
  const auto x = as_number(value);
  return x ? Result(-*x) : std::nullopt;
}

}  // namespace

Expression make_expression(Operation operation, Expression operand) {
  Expression out{.operation = operation};
  out.operands.push_back(std::move(operand));
  return out;
}

Expression make_expression(Operation operation, Expression left, Expression right) {
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

Hash compute_hash(const Value& value) {
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
      return evaluate_list(e, bindings);
    case Operation::kDim:
    case Operation::kDegree:
      return evaluate_dimension(e, bindings);
    case Operation::kRank:
    case Operation::kReplicas:
    case Operation::kPartial:
    case Operation::kSameShape:
      return evaluate_tensor_function(e, bindings);
    case Operation::kAnd:
    case Operation::kOr:
    case Operation::kNot:
      return to_truth_value(holds(e, bindings));
    case Operation::kNegate:
      return evaluate_negation(e, bindings);
    default:
      return evaluate_binary(e, bindings);
  }
}

namespace {

// A value if it is an integer. Conditions are evaluated millions of times, nearly always on
// integers. This avoids building a Value for those.
struct Whole {
  enum class IntegerKind : std::uint8_t { kNumber, kNoValue, kOther } kind = IntegerKind::kOther;
  std::int64_t number = 0;

  static Whole of(std::int64_t number) { return {IntegerKind::kNumber, number}; }
  static Whole none() { return {IntegerKind::kNoValue}; }
  [[nodiscard]] bool is_number() const { return kind == IntegerKind::kNumber; }
};

Whole to_integer(const Value& value) {
  const auto* number = std::get_if<std::int64_t>(&value);
  return number != nullptr ? Whole::of(*number) : Whole{};
}

Whole evaluate_integer(const Expression& e, const Bindings& bindings) {
  switch (e.operation) {
    case Operation::kLiteral:
      return to_integer(e.literal);
    case Operation::kSymbol: {
      const auto at = e.variables[0];
      const bool known = at < bindings.symbols.size() && bindings.symbols[at];
      return known ? to_integer(*bindings.symbols[at]) : Whole::none();
    }
    case Operation::kRank:
    case Operation::kReplicas:
    case Operation::kPartial: {
      const auto* type = find_bound_type(e, bindings);
      if (type == nullptr) return Whole::none();
      const auto& shape = type->shape;
      if (e.operation == Operation::kRank) {
        return Whole::of(static_cast<std::int64_t>(shape.rank()));
      }
      return Whole::of(e.operation == Operation::kPartial ? shape.partial : shape.replicas);
    }
    case Operation::kDim:
    case Operation::kDegree: {
      const auto* type = find_bound_type(e, bindings);
      const auto i = evaluate_integer(e.operands[0], bindings);
      if (i.kind == Whole::IntegerKind::kOther) return {};
      if (type == nullptr || !i.is_number() || i.number < 0 ||
          i.number >= static_cast<std::int64_t>(type->shape.rank())) {
        return Whole::none();
      }
      const auto& of = e.operation == Operation::kDim ? type->shape.sizes : type->shape.degrees;
      return Whole::of(of[static_cast<std::size_t>(i.number)]);
    }
    case Operation::kAdd:
    case Operation::kSubtract:
    case Operation::kMultiply:
    case Operation::kDivide:
    case Operation::kRemainder: {
      const auto a = evaluate_integer(e.operands[0], bindings);
      const auto b = evaluate_integer(e.operands[1], bindings);
      if (!a.is_number() || !b.is_number()) return {};
      const auto made = compute_arithmetic(e.operation, a.number, b.number);
      return made ? Whole::of(*made) : Whole::none();
    }
    default:
      return {};
  }
}

// Returns the result of a comparison of integers, or nullopt for other operands.
std::optional<bool> compare_integer_operands(const Expression& e, const Bindings& bindings) {
  const auto a = evaluate_integer(e.operands[0], bindings);
  if (a.kind == Whole::IntegerKind::kOther) return std::nullopt;
  const auto b = evaluate_integer(e.operands[1], bindings);
  if (b.kind == Whole::IntegerKind::kOther) return std::nullopt;
  if (!a.is_number() || !b.is_number()) return false;
  return compare_integers(e.operation, a.number, b.number).value_or(false);
}

}  // namespace

bool holds(const Expression& e, const Bindings& bindings) {
  switch (e.operation) {
    case Operation::kAnd:
      return holds(e.operands[0], bindings) && holds(e.operands[1], bindings);
    case Operation::kOr:
      return holds(e.operands[0], bindings) || holds(e.operands[1], bindings);
    case Operation::kNot:
      return !holds(e.operands[0], bindings);
    case Operation::kEqual:
    case Operation::kNotEqual:
    case Operation::kLess:
    case Operation::kAtMost:
    case Operation::kDivides:
      if (const auto known = compare_integer_operands(e, bindings)) return *known;
      break;
    default:
      break;
  }
  const auto value = evaluate(e, bindings);
  const auto* text = value ? std::get_if<std::string>(&*value) : nullptr;
  return text != nullptr && *text == "true";
}

}  // namespace tandem::rewrite

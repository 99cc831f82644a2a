// Folding of elementwise operators.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "import/constant_folding.h"

namespace tandem::import {

// Computes with unsigned numbers, so that integers wrap around as in ONNX's implementations.
template <class F>
std::int64_t compute_with_wraparound(std::int64_t a, std::int64_t b, F f) {
  return static_cast<std::int64_t>(f(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
}

std::int64_t evaluate_integer_op(std::string_view op, std::int64_t a, std::int64_t b) {
  if (op == "Add") return compute_with_wraparound(a, b, std::plus<>());
  if (op == "Sub") return compute_with_wraparound(a, b, std::minus<>());
  if (op == "Mul") return compute_with_wraparound(a, b, std::multiplies<>());
  if (op == "Min") return std::min(a, b);
  if (op == "Max") return std::max(a, b);
  if (op == "Pow") return to_integer(std::pow(static_cast<double>(a), static_cast<double>(b)));
  if (b == 0) reject("an integer division by zero");
  if (b == -1) return op == "Div" ? compute_with_wraparound(0, a, std::minus<>()) : 0;
  if (op == "Div") return a / b;
  if (op == "Remainder") return a % b;
  const auto rest = a % b;  // Mod: the result has the sign of the divisor
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double evaluate_real_op(std::string_view op, double a, double b) {
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Div") return a / b;
  if (op == "Min") return std::min(a, b);
  if (op == "Max") return std::max(a, b);
  if (op == "Pow") return std::pow(a, b);
  return std::fmod(a, b);
}

namespace {

Known fold_arithmetic_pair(OnnxCall& call, std::string_view op, const Known& a, const Known& b) {
  const auto sizes = broadcast_sizes(a.sizes, b.sizes);
  const auto x = broadcast(call, a, sizes);
  const auto y = broadcast(call, b, sizes);
  Known out{.type = a.type, .sizes = sizes};
  for (std::size_t i = 0; i < x.count(); ++i) {
    if (x.has_integers() && y.has_integers()) {
      out.ints.push_back(evaluate_integer_op(op, x.ints[i], y.ints[i]));
    } else {
      push(out, evaluate_real_op(op, x.real(i), y.real(i)));
    }
  }
  return out;
}

Known fold_arithmetic(OnnxCall& call, const Operands& in) {
  const auto op = call.op() == "Mod" && call.integer("fmod", 0) != 0 ? "Remainder" : call.op();
  Known out = get_operand(in, 0);
  for (std::size_t i = 1; i < in.size(); ++i)
    out = fold_arithmetic_pair(call, op, out, get_operand(in, i));
  return out;
}

bool compare(std::string_view op, double a, double b) {
  if (op == "Equal") return a == b;
  if (op == "Less") return a < b;
  if (op == "LessOrEqual") return a <= b;
  if (op == "Greater") return a > b;
  if (op == "GreaterOrEqual") return a >= b;
  if (op == "And") return a != 0 && b != 0;
  if (op == "Or") return a != 0 || b != 0;
  return (a != 0) != (b != 0);  // Xor
}

Known fold_comparison(OnnxCall& call, const Operands& in) {
  const auto sizes = broadcast_sizes(get_operand(in, 0).sizes, get_operand(in, 1).sizes);
  const auto x = broadcast(call, *in[0], sizes);
  const auto y = broadcast(call, *in[1], sizes);
  Known out{.type = kBool, .sizes = sizes};
  for (std::size_t i = 0; i < x.count(); ++i) {
    const bool exact = x.has_integers() && y.has_integers() && call.op() == "Equal";
    out.ints.push_back(exact ? x.ints[i] == y.ints[i] : compare(call.op(), x.real(i), y.real(i)));
  }
  return out;
}

Known fold_where(OnnxCall& call, const Operands& in) {
  const auto sizes =
      broadcast_sizes(broadcast_sizes(get_operand(in, 0).sizes, get_operand(in, 1).sizes),
                      get_operand(in, 2).sizes);
  const auto condition = broadcast(call, *in[0], sizes);
  const auto x = broadcast(call, *in[1], sizes);
  const auto y = broadcast(call, *in[2], sizes);
  Known out{.type = x.type, .sizes = sizes};
  for (std::size_t i = 0; i < x.count(); ++i) {
    const auto& from = condition.real(i) != 0 ? x : y;
    if (from.has_integers() == out.has_integers()) {
      copy_element(from, i, out);
    } else {
      push(out, from.real(i));
    }
  }
  return out;
}

double evaluate_unary_op(std::string_view op, double x) {
  if (op == "Neg") return -x;
  if (op == "Abs") return std::abs(x);
  if (op == "Floor") return std::floor(x);
  if (op == "Ceil") return std::ceil(x);
  if (op == "Round") return std::nearbyint(x);
  if (op == "Sqrt") return std::sqrt(x);
  if (op == "Exp") return std::exp(x);
  if (op == "Log") return std::log(x);
  if (op == "Sin") return std::sin(x);
  if (op == "Cos") return std::cos(x);
  if (op == "Reciprocal") return 1 / x;
  return x == 0 ? 1 : 0;  // Not
}

Known fold_unary(OnnxCall& call, const Operands& in) {
  Known out = get_operand(in, 0);
  for (auto& x : out.ints) x = to_integer(evaluate_unary_op(call.op(), static_cast<double>(x)));
  for (auto& x : out.reals) x = evaluate_unary_op(call.op(), x);
  return out;
}

}  // namespace

Known cast_known(const Known& k, std::int32_t to) {
  if (!to_real_dtype(to) && !is_integer_type(to)) {
    reject(fmt::format("a cast to {} is not supported", type_name(to)));
  }
  Known out{.type = to, .sizes = k.sizes};
  for (std::size_t i = 0; i < k.count(); ++i) {
    if (k.has_integers() && out.has_integers()) {
      out.ints.push_back(to == kBool ? k.ints[i] != 0 : k.ints[i]);
    } else {
      push(out, to == kBool ? static_cast<double>(k.real(i) != 0) : k.real(i));
    }
  }
  return out;
}

namespace {

Known fold_cast(OnnxCall& call, const Operands& in) {
  return cast_known(get_operand(in, 0), static_cast<std::int32_t>(call.integer("to", kFloat)));
}

Known fold_cast_like(OnnxCall&, const Operands& in) {
  return cast_known(get_operand(in, 0), get_operand(in, 1).type);
}

}  // namespace

FoldFunctions elementwise_fold_functions() {
  return {
      {"Abs", fold_unary},
      {"Add", fold_arithmetic},
      {"And", fold_comparison},
      {"Cast", fold_cast},
      {"CastLike", fold_cast_like},
      {"Ceil", fold_unary},
      {"Cos", fold_unary},
      {"Div", fold_arithmetic},
      {"Equal", fold_comparison},
      {"Exp", fold_unary},
      {"Floor", fold_unary},
      {"Greater", fold_comparison},
      {"GreaterOrEqual", fold_comparison},
      {"Less", fold_comparison},
      {"LessOrEqual", fold_comparison},
      {"Log", fold_unary},
      {"Max", fold_arithmetic},
      {"Min", fold_arithmetic},
      {"Mod", fold_arithmetic},
      {"Mul", fold_arithmetic},
      {"Neg", fold_unary},
      {"Not", fold_unary},
      {"Or", fold_comparison},
      {"Pow", fold_arithmetic},
      {"Reciprocal", fold_unary},
      {"Round", fold_unary},
      {"Sin", fold_unary},
      {"Sqrt", fold_unary},
      {"Sub", fold_arithmetic},
      {"Where", fold_where},
      {"Xor", fold_comparison},
  };
}

}  // namespace tandem::import

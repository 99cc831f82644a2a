// Folding of elementwise operators.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "import/fold.h"

namespace tandem::import {

// Computes with unsigned numbers, so that integers wrap around as in ONNX's implementations.
template <class F>
std::int64_t wrapping(std::int64_t a, std::int64_t b, F f) {
  return static_cast<std::int64_t>(f(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
}

std::int64_t whole_result(std::string_view op, std::int64_t a, std::int64_t b) {
  if (op == "Add") return wrapping(a, b, std::plus<>());
  if (op == "Sub") return wrapping(a, b, std::minus<>());
  if (op == "Mul") return wrapping(a, b, std::multiplies<>());
  if (op == "Min") return std::min(a, b);
  if (op == "Max") return std::max(a, b);
  if (op == "Pow") return to_integer(std::pow(static_cast<double>(a), static_cast<double>(b)));
  if (b == 0) reject("an integer division by zero");
  if (b == -1) return op == "Div" ? wrapping(0, a, std::minus<>()) : 0;
  if (op == "Div") return a / b;
  if (op == "Remainder") return a % b;
  const auto rest = a % b;  // Mod: the result has the sign of the divisor
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double real_result(std::string_view op, double a, double b) {
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

Known arithmetic_of_two(Call& call, std::string_view op, const Known& a, const Known& b) {
  const auto sizes = broadcast_sizes(a.sizes, b.sizes);
  const auto x = broadcast(call, a, sizes);
  const auto y = broadcast(call, b, sizes);
  Known out{.type = a.type, .sizes = sizes};
  for (std::size_t i = 0; i < x.count(); ++i) {
    if (x.whole() && y.whole()) {
      out.ints.push_back(whole_result(op, x.ints[i], y.ints[i]));
    } else {
      push(out, real_result(op, x.real(i), y.real(i)));
    }
  }
  return out;
}

Known arithmetic(Call& call, const Operands& in) {
  const auto op = call.op() == "Mod" && call.integer("fmod", 0) != 0 ? "Remainder" : call.op();
  Known out = operand(in, 0);
  for (std::size_t i = 1; i < in.size(); ++i)
    out = arithmetic_of_two(call, op, out, operand(in, i));
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

Known comparison(Call& call, const Operands& in) {
  const auto sizes = broadcast_sizes(operand(in, 0).sizes, operand(in, 1).sizes);
  const auto x = broadcast(call, *in[0], sizes);
  const auto y = broadcast(call, *in[1], sizes);
  Known out{.type = kBool, .sizes = sizes};
  for (std::size_t i = 0; i < x.count(); ++i) {
    const bool exact = x.whole() && y.whole() && call.op() == "Equal";
    out.ints.push_back(exact ? x.ints[i] == y.ints[i] : compare(call.op(), x.real(i), y.real(i)));
  }
  return out;
}

Known where(Call& call, const Operands& in) {
  const auto sizes = broadcast_sizes(broadcast_sizes(operand(in, 0).sizes, operand(in, 1).sizes),
                                     operand(in, 2).sizes);
  const auto condition = broadcast(call, *in[0], sizes);
  const auto x = broadcast(call, *in[1], sizes);
  const auto y = broadcast(call, *in[2], sizes);
  Known out{.type = x.type, .sizes = sizes};
  for (std::size_t i = 0; i < x.count(); ++i) {
    const auto& from = condition.real(i) != 0 ? x : y;
    if (from.whole() == out.whole()) {
      copy_element(from, i, out);
    } else {
      push(out, from.real(i));
    }
  }
  return out;
}

double unary_result(std::string_view op, double x) {
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

Known unary(Call& call, const Operands& in) {
  Known out = operand(in, 0);
  for (auto& x : out.ints) x = to_integer(unary_result(call.op(), static_cast<double>(x)));
  for (auto& x : out.reals) x = unary_result(call.op(), x);
  return out;
}

}  // namespace

Known known_cast(const Known& k, std::int32_t to) {
  if (!real_type(to) && !is_whole(to)) {
    reject(fmt::format("a cast to {} is not supported", type_name(to)));
  }
  Known out{.type = to, .sizes = k.sizes};
  for (std::size_t i = 0; i < k.count(); ++i) {
    if (k.whole() && out.whole()) {
      out.ints.push_back(to == kBool ? k.ints[i] != 0 : k.ints[i]);
    } else {
      push(out, to == kBool ? static_cast<double>(k.real(i) != 0) : k.real(i));
    }
  }
  return out;
}

namespace {

Known cast(Call& call, const Operands& in) {
  return known_cast(operand(in, 0), static_cast<std::int32_t>(call.integer("to", kFloat)));
}

Known cast_like(Call&, const Operands& in) {
  return known_cast(operand(in, 0), operand(in, 1).type);
}

}  // namespace

Folders elementwise_folders() {
  return {
      {"Abs", unary},
      {"Add", arithmetic},
      {"And", comparison},
      {"Cast", cast},
      {"CastLike", cast_like},
      {"Ceil", unary},
      {"Cos", unary},
      {"Div", arithmetic},
      {"Equal", comparison},
      {"Exp", unary},
      {"Floor", unary},
      {"Greater", comparison},
      {"GreaterOrEqual", comparison},
      {"Less", comparison},
      {"LessOrEqual", comparison},
      {"Log", unary},
      {"Max", arithmetic},
      {"Min", arithmetic},
      {"Mod", arithmetic},
      {"Mul", arithmetic},
      {"Neg", unary},
      {"Not", unary},
      {"Or", comparison},
      {"Pow", arithmetic},
      {"Reciprocal", unary},
      {"Round", unary},
      {"Sin", unary},
      {"Sqrt", unary},
      {"Sub", arithmetic},
      {"Where", where},
      {"Xor", comparison},
  };
}

}  // namespace tandem::import

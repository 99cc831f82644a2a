// Elementwise functions of one tensor.
#include <cmath>
#include <numbers>

#include "ops/activation.h"
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

using term::constant;
using term::Function;

OpSpec define_unary(const std::string& name, const std::string& formula,
                    std::vector<std::string> onnx, Term (*f)(const Term&)) {
  return define_op<NoAttributes>({
      .name = name,
      .doc = fmt::format("out = {}, elementwise", formula),
      .index = "... -> ...",
      .kernel = name,
      .onnx = std::move(onnx),
      .meaning = [f](const auto&, std::span<const Shape>) { return f(term::input(0)); },
  });
}

template <Function kFunction>
OpSpec define_function(const std::string& onnx) {
  const std::string name(term::name(kFunction));
  return define_unary(name, name + "(x)", {onnx},
                      [](const Term& x) { return term::apply(kFunction, x); });
}

// Returns 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as in GPT-2.
Term gelu_tanh(const Term& x) {
  const auto inner = x + constant(0.044715) * x * x * x;
  const auto tanh = term::apply(Function::kTanh,
                                constant(std::numbers::sqrt2 * std::numbers::inv_sqrtpi) * inner);
  return constant(0.5) * x * (constant(1) + tanh);
}

template <class Attributes>
OpSpec define_with_attributes(const std::string& name, const std::string& formula,
                              const std::vector<std::string>& onnx,
                              void (*check)(const Attributes&),
                              Term (*f)(const Attributes&, const Term&)) {
  return define_op<Attributes>({
      .name = name,
      .doc = fmt::format("out = {}, elementwise", formula),
      .index = "... -> ...",
      .kernel = name,
      .onnx = onnx,
      .index_text = [check](const Attributes& a, std::span<const Shape>) -> std::string {
        check(a);
        return "... -> ...";
      },
      .meaning = [f](const Attributes& a, std::span<const Shape>) { return f(a, term::input(0)); },
  });
}

struct HardSigmoid {
  double slope = 1.0 / 6;
  double shift = 0.5;
  bool operator==(const HardSigmoid&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"slope", &HardSigmoid::slope},
                                            AttributeField{"shift", &HardSigmoid::shift}};
};

Term clip_term(const Term& x, double low, double high) {
  const auto below = term::less(x, constant(low));
  const auto above = term::less(constant(high), x);
  return term::where(below, constant(low), term::where(above, constant(high), x));
}

void check_clip(const Clip& a) {
  check_finite("min", a.min);
  check_finite("max", a.max);
  if (a.min > a.max) reject(fmt::format("min {} is greater than max {}", a.min, a.max));
}

}  // namespace

const OpSpec kAbs = define_function<Function::kAbs>("Abs");
const OpSpec kCos = define_function<Function::kCos>("Cos");
const OpSpec kErf = define_function<Function::kErf>("Erf");
const OpSpec kExp = define_function<Function::kExp>("Exp");
const OpSpec kLog = define_function<Function::kLog>("Log");
const OpSpec kSigmoid = define_function<Function::kSigmoid>("Sigmoid");
const OpSpec kSin = define_function<Function::kSin>("Sin");
const OpSpec kSqrt = define_function<Function::kSqrt>("Sqrt");
const OpSpec kTanh = define_function<Function::kTanh>("Tanh");

const OpSpec kGelu = define_unary("gelu", "x * (1 + erf(x / sqrt(2))) / 2", {"Gelu"}, gelu);
const OpSpec kGeluTanh = define_unary("gelu_tanh", "gelu(x), approximated by tanh", {}, gelu_tanh);
const OpSpec kIdentity =
    define_unary("identity", "x", {"Identity"}, [](const Term& x) { return x; });
const OpSpec kNeg =
    define_unary("neg", "-x", {"Neg"}, [](const Term& x) { return constant(-1) * x; });
const OpSpec kReciprocal = define_unary("reciprocal", "1 / x", {"Reciprocal"},
                                        [](const Term& x) { return constant(1) / x; });
const OpSpec kRelu = define_op<NoAttributes>({
    .name = "relu",
    .doc = "out = max(x, 0), elementwise",
    .index = "... -> ...",
    .kernel = "relu",
    .onnx = {"Relu"},
    .meaning = [](const auto&, std::span<const Shape>) { return relu(term::input(0)); },
    .gradient_from_result = [] { return term::less(constant(0), term::input(0)) * term::input(1); },
});
const OpSpec kRsqrt = define_unary("rsqrt", "1 / sqrt(x)", {},
                                   [](const Term& x) { return constant(1) / term::sqrt(x); });
const OpSpec kSilu = define_unary("silu", "x * sigmoid(x)", {}, silu);
// Computes log(1 + exp(x)) without exp of large numbers.
const OpSpec kSoftplus =
    define_unary("softplus", "log(1 + exp(x))", {"Softplus"}, [](const Term& x) {
      const auto small = term::apply(Function::kAbs, x);
      return relu(x) + term::apply(Function::kLog, constant(1) + term::exp(constant(-1) * small));
    });
const OpSpec kSquare = define_unary("square", "x * x", {}, [](const Term& x) { return x * x; });

const OpSpec kClip = define_with_attributes<Clip>(
    "clip", "min(max(x, `min`), `max`)", {"Clip"}, check_clip,
    [](const Clip& a, const Term& x) { return clip_term(x, a.min, a.max); });
const OpSpec kHardSigmoid = define_with_attributes<HardSigmoid>(
    "hard_sigmoid", "min(max(`slope` * x + `shift`, 0), 1)", {"HardSigmoid"},
    [](const HardSigmoid& a) {
      check_finite("slope", a.slope);
      check_finite("shift", a.shift);
      if (a.slope <= 0) reject(fmt::format("slope is {}, but must be more than 0", a.slope));
    },
    [](const HardSigmoid& a, const Term& x) {
      const auto inside = clip_term(x, -a.shift / a.slope, (1 - a.shift) / a.slope);
      return constant(a.slope) * inside + constant(a.shift);
    });
const OpSpec kHardSwish = define_unary(
    "hard_swish", "x * min(max(x / 6 + 0.5, 0), 1)", {"HardSwish"},
    [](const Term& x) { return x * clip_term(constant(1.0 / 6) * x + constant(0.5), 0, 1); });
const OpSpec kLeakyRelu = define_with_attributes<Slope>(
    "leaky_relu", "x where x > 0, else `slope` * x", {"LeakyRelu"},
    [](const Slope& a) { check_finite("slope", a.slope); },
    [](const Slope& a, const Term& x) {
      return term::where(term::less(constant(0), x), x, constant(a.slope) * x);
    });
const OpSpec kScale = define_with_attributes<ScaleAttributes>(
    "scale", "`factor` * x", {}, [](const ScaleAttributes& a) { check_finite("factor", a.factor); },
    [](const ScaleAttributes& a, const Term& x) { return constant(a.factor) * x; });

}  // namespace tandem::ops

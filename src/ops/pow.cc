// A constant power. Integer and half-integer exponents are products and a square root. Other
// exponents use the logarithm, so their operand must be positive.
#include <cmath>

#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

struct Power {
  double exponent = 2;
  bool operator==(const Power&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"exponent", &Power::exponent}};
};

constexpr double kMostFactors = 16;

Term expand_power(const Term& x, double exponent) {
  const double whole = std::floor(exponent);
  const double rest = exponent - whole;
  if (exponent > kMostFactors || (rest != 0 && rest != 0.5)) {
    return term::exp(term::constant(exponent) * term::apply(term::Function::kLog, x));
  }
  Term out = rest == 0.5 ? term::sqrt(x) : Term();
  for (int i = 0; i < static_cast<int>(whole); ++i) out = out ? out * x : x;
  return out ? out : term::constant(1);
}

Term meaning(const Power& a, std::span<const Shape>) {
  const auto x = term::input(0);
  return a.exponent < 0 ? term::constant(1) / expand_power(x, -a.exponent)
                        : expand_power(x, a.exponent);
}

}  // namespace

const OpSpec kPow = define_op<Power>({
    .name = "pow",
    .doc = "out = x ^ `exponent`, elementwise",
    .index = "... -> ...",
    .kernel = "pow",
    .onnx = {"Pow"},
    .index_text = [](const Power& a, std::span<const Shape>) -> std::string {
      check_finite("exponent", a.exponent);
      return "... -> ...";
    },
    .meaning = meaning,
});

}  // namespace tandem::ops

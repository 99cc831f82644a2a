// Rotary position embedding. The pair of elements i and i + d/2 is rotated by position x
// base^(-2i/d). The two halves are a factor `two`; the other half is read at i - half x two + half.
#include <cmath>

#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

std::string index_text(const Rope& a, std::span<const Shape> in) {
  check_inputs(in, 1, 1);
  check_rank(in, 0, 2, Shape::kMaxRank);
  const auto width = in[0][in[0].rank() - 1];
  if (width % 2 != 0) reject(fmt::format("the last dimension is {}, but must be even", width));
  if (!std::isfinite(a.base) || a.base <= 0) {
    reject(fmt::format("base is {}, but must be more than 0", a.base));
  }
  if (a.first < 0) reject(fmt::format("first is {}, but must be 0 or more", a.first));
  return "... s (!two:2 !i) -> ... s (two i)";
}

Term meaning(const Rope& a, std::span<const Shape> in) {
  const auto half = in[0][in[0].rank() - 1] / 2;
  const auto rate = term::constant(-std::log(a.base) / static_cast<double>(half));
  const auto row = term::index_along("s");
  const auto position = a.first == 0 ? row : row + term::constant(static_cast<double>(a.first));
  const auto angle = position * term::exp(rate * term::index_along("i"));
  const auto other = term::input_at(0, fmt::format("... s i-{}two+{}", half, half));
  const auto sign = term::constant(2) * term::index_along("two") - term::constant(1);
  return term::input(0) * term::apply(term::Function::kCos, angle) +
         sign * other * term::apply(term::Function::kSin, angle);
}

}  // namespace

const OpSpec kRope = define_op<Rope>({
    .name = "rope",
    .doc = "out[...,s,i] = x[...,s,i] cos(p base^(-2i/d)) -+ x[...,s,i+-d/2] sin(p base^(-2i/d)), "
           "minus in the first half; p = s + first",
    .index = "... s (!two:2 !i) -> ... s (two i)",
    .kernel = "rope",
    .onnx = {"RotaryEmbedding"},
    .index_text = index_text,
    .meaning = meaning,
});

}  // namespace tandem::ops

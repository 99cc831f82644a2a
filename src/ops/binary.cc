// Elementwise functions of two tensors. Shapes are broadcast from the last dimension on, as in
// numpy. An operand is read at index 0 along a dimension of size 1, and may lack leading
// dimensions.
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

std::string broadcast_index(std::span<const Shape> in) {
  check_inputs(in, 2, 2);
  const auto rank = std::max(in[0].rank(), in[1].rank());
  return fmt::format("{}, {} -> {}", join(broadcast_dims(in[0], in[1]), " "),
                     join(broadcast_dims(in[1], in[0]), " "), join(make_dim_names(rank), " "));
}

OpSpec define_binary(const std::string& name, const std::string& formula, std::string onnx,
                     Term (*f)(const Term&, const Term&)) {
  return define_op<NoAttributes>({
      .name = name,
      .doc = fmt::format("out = {}, elementwise; dimensions of size 1 are broadcast", formula),
      .index = "..., ... -> ...",
      .kernel = name,
      .onnx = {std::move(onnx)},
      .index_text = [](const auto&, std::span<const Shape> in) { return broadcast_index(in); },
      .meaning = [f](const auto&,
                     std::span<const Shape>) { return f(term::input(0), term::input(1)); },
  });
}

}  // namespace

const OpSpec kAdd =
    define_binary("add", "a + b", "Add", [](const Term& a, const Term& b) { return a + b; });
const OpSpec kDiv =
    define_binary("div", "a / b", "Div", [](const Term& a, const Term& b) { return a / b; });
const OpSpec kMax = define_binary("max", "max(a, b)", "Max", [](const Term& a, const Term& b) {
  return term::where(term::less(a, b), b, a);
});
const OpSpec kMin = define_binary("min", "min(a, b)", "Min", [](const Term& a, const Term& b) {
  return term::where(term::less(b, a), b, a);
});
const OpSpec kMul =
    define_binary("mul", "a * b", "Mul", [](const Term& a, const Term& b) { return a * b; });
const OpSpec kPrelu =
    define_binary("prelu", "a where a > 0, else a * b", "PRelu", [](const Term& a, const Term& b) {
      return term::where(term::less(term::constant(0), a), a, a * b);
    });
const OpSpec kSub =
    define_binary("sub", "a - b", "Sub", [](const Term& a, const Term& b) { return a - b; });

}  // namespace tandem::ops

// Elementwise sum of two tensors of one shape.
#include "ops/registry.h"

namespace tandem::ops {

const OpSpec kAdd = define_op<NoAttributes>({
    .name = "add",
    .doc = "out = lhs + rhs, element by element",
    .index = "..., ... -> ...",
    .kernel = "add",
    .onnx = {"Add"},
    .meaning = [](const auto&, std::span<const Shape>) { return term::input(0) + term::input(1); },
});

}  // namespace tandem::ops

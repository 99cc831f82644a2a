// Rectifier.
#include "ops/registry.h"

namespace tandem::ops {

const OpSpec kRelu = define_op<NoAttributes>({
    .name = "relu",
    .doc = "out = max(x, 0), element by element",
    .index = "... -> ...",
    .kernel = "relu",
    .onnx = {"Relu"},
    .meaning = [](const auto&, std::span<const Shape>) { return term::relu(term::input(0)); },
});

}  // namespace tandem::ops

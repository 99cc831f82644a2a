// Cross entropy of logits and target indices. Its sum of exponentials cannot be partitioned. For a
// sharded vocabulary it is rewritten as row_max, exp, reduce_sum, pick and others, each of which
// leaves partial values.
#include "ops/registry.h"

namespace tandem::ops {

const OpSpec kCrossEntropy = define_op<NoAttributes>({
    .name = "cross_entropy",
    .doc = "out = mean(log sum_v exp(x[...,v]) - x[...,target[...]]), a scalar",
    .index = "... v, ... -> ",
    .kernel = "cross_entropy",
    .onnx = {"SoftmaxCrossEntropyLoss"},
    .index_inputs = 0b10,
    .meaning =
        [](const auto&, std::span<const Shape>) {
          const auto x = term::input(0);
          const auto maximum = term::max_over("v", x);
          const auto total =
              term::apply(term::Function::kLog, term::sum("v", term::exp(x - maximum)));
          const auto hit = term::equal(term::input(1), term::index_along("v"));
          const auto loss = total + maximum - term::sum("v", hit * x);
          return term::sum("...", loss) / term::extent("...");
        },
});

}  // namespace tandem::ops

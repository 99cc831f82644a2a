// Mean squared error. The mean is a sum divided by the global count, so the results of the parts of
// a batch can be summed.
#include "ops/registry.h"

namespace tandem::ops {

const OpSpec kMse = define_op<NoAttributes>({
    .name = "mse",
    .doc = "out = mean((prediction - target)^2), a scalar",
    .index = "... c, ... c -> ",
    .kernel = "mse",
    .meaning =
        [](const auto&, std::span<const Shape>) {
          const auto error = term::input(0) - term::input(1);
          return term::sum("... c", error * error) / term::extent("... c");
        },
});

}  // namespace tandem::ops

// Fully connected layer. A bias or an activation needs the whole sum, so with either of them the
// contracted factor k cannot be partitioned. That follows from the meaning below.
#include "ops/activation.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

const OpSpec kLinear = define_op<LinearAttributes>({
    .name = "linear",
    .doc = "out[...,n] = act(sum_k x[...,k] * w[n,k] + bias[n]); the bias is optional",
    .index = "... k, n k -> ... n",
    .kernel = "linear",
    .onnx = {"Gemm"},
    .matmul_operand = 1,
    .index_text = [](const LinearAttributes&, std::span<const Shape> in) -> std::string {
      check_inputs(in, 2, 3);
      return in.size() == 3 ? "... k, n k, n -> ... n" : "... k, n k -> ... n";
    },
    .meaning =
        [](const LinearAttributes& a, std::span<const Shape> in) {
          auto out = term::sum("k", term::input(0) * term::input(1));
          if (in.size() == 3) out = out + term::input(2);
          return activate(a.act, out);
        },
});

}  // namespace tandem::ops

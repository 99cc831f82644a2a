// The logarithm of a softmax along one dimension, computed without the logarithm of a small number.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

struct LogSoftmax {
  std::int64_t axis = -1;
  bool operator==(const LogSoftmax&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"axis", &LogSoftmax::axis}};
};

}  // namespace

const OpSpec kLogSoftmax = define_op<LogSoftmax>({
    .name = "log_softmax",
    .doc = "out[...,c] = x[...,c] - log sum_c exp(x[...,c])",
    .index = "... !c -> ... !c",
    .kernel = "log_softmax",
    .onnx = {"LogSoftmax"},
    .index_text =
        [](const LogSoftmax& a, std::span<const Shape> in) {
          check_inputs(in, 1, 1);
          auto dims = make_dim_names(in[0].rank());
          dims[normalize_axis(a.axis, in[0].rank())] = "!c";
          return fmt::format("{} -> {}", join(dims, " "), join(dims, " "));
        },
    .meaning =
        [](const LogSoftmax&, std::span<const Shape>) {
          const auto shifted = term::input(0) - term::max_over("c", term::input(0));
          return shifted - term::apply(term::Function::kLog, term::sum("c", term::exp(shifted)));
        },
});

}  // namespace tandem::ops

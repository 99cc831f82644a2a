// Batch normalisation with the statistics of the current batch. Each group of `group` samples is
// normalised separately. The dimensions that the statistics run over cannot be partitioned here.
// batch_moments and batch_normalize, the same computation in two steps, allow that.
#include "ops/attributes.h"
#include "ops/batch_groups.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

std::string index_text(const BatchNorm& a, std::span<const Shape> in) {
  check_inputs(in, 3, 3);
  check_eps(a.eps);
  const auto groups = make_batch_groups(a.group, in);
  std::string space;
  for (const auto& name : groups.space) space += " !" + name;
  const auto sample = a.group == 0 ? "!g" : fmt::format("(n !g:{})", groups.size);
  return fmt::format("{} c{}, c, c -> {} c{}", sample, space, a.group == 0 ? "g" : "(n g)", space);
}

Term meaning(const BatchNorm& a, std::span<const Shape> in) {
  const auto over = make_batch_groups(a.group, in).over;
  const auto x = term::input(0);
  const auto centred = x - term::sum(over, x) / term::extent(over);
  const auto variance = term::sum(over, centred * centred) / term::extent(over);
  return centred / term::sqrt(variance + term::constant(a.eps)) * term::input(1) + term::input(2);
}

}  // namespace

const OpSpec kBatchNorm = define_op<BatchNorm>({
    .name = "batch_norm",
    .doc = "out[n,c,...] = (x - mean x) / sqrt(variance x + eps) * scale[c] + shift[c], over the "
           "samples of a group and all dimensions after the channels",
    .index = "(n !g) c !h !w, c, c -> (n g) c !h !w",
    .kernel = "batch_norm",
    .onnx = {"BatchNormalization"},
    .index_text = index_text,
    .meaning = meaning,
});

}  // namespace tandem::ops

// The first step of a batch normalisation whose groups are partitioned: the mean of x and of x * x.
// Each device divides its sums by the global count, so that the results of parts of the batch or
// the image can be summed.
#include "ops/attributes.h"
#include "ops/batch_groups.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

std::string moments_index(const BatchNorm& a, std::span<const Shape> in) {
  check_inputs(in, 1, 1);
  const auto groups = make_batch_groups(a.group, in);
  std::string space;
  for (const auto& name : groups.space) space += " " + name;
  return fmt::format("(n:{} g) c{} -> n c m:2", groups.count, space);
}

Term moments_meaning(const BatchNorm& a, std::span<const Shape> in) {
  const auto over = make_batch_groups(a.group, in).over;
  const auto x = term::input(0);
  const auto moment = [](double m) {
    return term::equal(term::index_along("m"), term::constant(m));
  };
  return term::sum(over, moment(0) * x + moment(1) * (x * x)) / term::extent(over);
}

}  // namespace

const OpSpec kBatchMoments = define_op<BatchNorm>({
    .name = "batch_moments",
    .doc = "out[n,c,0] = mean x and out[n,c,1] = mean x^2 over the samples of group n and all "
           "dimensions after the channels",
    .index = "(n g) c h w -> n c m:2",
    .kernel = "batch_moments",
    .index_text = moments_index,
    .meaning = moments_meaning,
});

}  // namespace tandem::ops

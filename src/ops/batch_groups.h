// The groups of samples over which a batch normalisation takes its statistics. batch_norm and
// batch_moments share this code.
#pragma once

#include "ops/index_text.h"

namespace tandem::ops {

// The groups of one input's samples.
struct BatchGroups {
  std::int64_t size = 1;   // number of samples in a group
  std::int64_t count = 1;  // number of groups in the batch
  Names space;             // names of the dimensions after the channels
  std::string over;        // factors that the statistics run over: "g h w"
};

// Returns the groups of input 0, which is [samples, channels, ...], with `group` samples each; a
// `group` of 0 means the whole batch. Throws UserError if `group` does not divide the batch.
inline BatchGroups make_batch_groups(std::int64_t group, std::span<const Shape> in) {
  check_rank(in, 0, 2, 5);
  const auto samples = in[0][0];
  check_range("group", group, 0, samples);
  const auto size = group == 0 ? samples : group;
  if (samples % size != 0) {
    reject(fmt::format("the group size {} does not divide the batch of {}", group, samples));
  }
  BatchGroups out{size, samples / size, make_space_names(in[0].rank() - 2), "g"};
  for (const auto& name : out.space) out.over += " " + name;
  return out;
}

}  // namespace tandem::ops

// How a batch normalisation sees its input: what batch_norm and batch_moments share.
#pragma once

#include "ops/index_text.h"

namespace tandem::ops {

struct BatchGroups {
  std::int64_t size = 1;   // samples of a group
  std::int64_t count = 1;  // groups of the batch
  Names space;             // the dimensions after the channels
  std::string over;        // the factors that the statistics run over: "g h w"
};

// Of input 0, [samples, channels, ...]; `group` 0 is the whole batch.
inline BatchGroups batch_groups(std::int64_t group, std::span<const Shape> in) {
  check_rank(in, 0, 2, 5);
  const auto samples = in[0][0];
  check_between("group", group, 0, samples);
  const auto size = group == 0 ? samples : group;
  if (samples % size != 0) {
    reject(fmt::format("group {} does not divide the batch, which is {}", group, samples));
  }
  BatchGroups out{size, samples / size, space_names(in[0].rank() - 2), "g"};
  for (const auto& name : out.space) out.over += " " + name;
  return out;
}

}  // namespace tandem::ops

// The values of a source's shard at the start of a step, by global index. Inputs come from the data
// set if there is one; other values come from graph/feed.h.
#pragma once

#include "data/dataset.h"
#include "graph/feed.h"
#include "lower/program.h"
#include "runtime/tensor.h"

namespace tandem::runtime {

// Returns the shard of `buffer` that `device` holds, in the memory of `place`. If the buffer is a
// partial sum, the first summand is the whole value and the others are zero.
at::Tensor make_source_values(const lower::Program& program, const lower::Buffer& buffer,
                              std::int64_t device, std::uint64_t seed, std::uint64_t step,
                              at::Device place, const data::Dataset* data = nullptr);

}  // namespace tandem::runtime

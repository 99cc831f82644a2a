// What a source's shard holds at the start of a step, by global index: the numbers of graph/feed.h,
// or of an input what the data set has.
#pragma once

#include "data/dataset.h"
#include "graph/feed.h"
#include "lower/program.h"
#include "runtime/tensor.h"

namespace tandem::runtime {

// Of a buffer that `device` holds, in the memory of `place`. Of a partial sum the first summand is
// everything.
at::Tensor source_values(const lower::Program& program, const lower::Buffer& buffer,
                         std::int64_t device, std::uint64_t seed, std::uint64_t step,
                         at::Device place, const data::Dataset* data = nullptr);

}  // namespace tandem::runtime

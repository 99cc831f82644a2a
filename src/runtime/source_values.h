// What a source's shard holds at the start of a step: the numbers of graph/feed.h, by global index.
#pragma once

#include "graph/feed.h"
#include "lower/program.h"
#include "runtime/tensor.h"

namespace tandem::runtime {

// Of a buffer that `device` holds. Of a partial sum the first summand is everything.
at::Tensor source_values(const lower::Program& program, const lower::Buffer& buffer,
                         std::int64_t device, std::uint64_t seed, std::uint64_t step);

}  // namespace tandem::runtime

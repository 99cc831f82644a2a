// The positions of shards in their tensors, and the overlap of two shards.
#pragma once

#include "lower/program.h"
#include "tensor/dense.h"
#include "term/evaluate.h"

namespace tandem::lower {

// Returns the box of a whole tensor.
term::Box make_whole_box(const Shape& sizes);

// Returns the box of the buffer's tensor that the device in `slot` holds.
//   [8, 6] with dimension 0 split over 4 devices, device 1 -> offset [2, 0], size [2, 6]
term::Box compute_box(const Buffer& buffer, const machine::Digits& digits, std::int64_t slot);

// Adds the overlap of two boxes of a tensor from `from` to `to`. Returns its number of elements.
template <class T>
std::int64_t add_overlap(const Dense<T>& from, const term::Box& from_box, Dense<T>& to,
                         const term::Box& to_box);

}  // namespace tandem::lower

// Where in a tensor the shard of a device lies, and what two shards have in common.
#pragma once

#include "lower/program.h"
#include "tensor/dense.h"
#include "term/evaluate.h"

namespace tandem::lower {

// The whole of a tensor.
term::Box everything(const Shape& sizes);

// What the device in `slot` holds of the buffer's tensor.
term::Box box_of(const Buffer& buffer, const machine::Digits& digits, std::int64_t slot);

// Adds what `from` and `to` have in common of a tensor; returns how many elements that is.
template <class T>
std::int64_t add_overlap(const Dense<T>& from, const term::Box& from_box, Dense<T>& to,
                         const term::Box& to_box);

}  // namespace tandem::lower

// The program of a graph from that of another which differs in extents only, as that of another
// batch does: the tasks are the same, and buffers have other sizes. Takes a small part of the time
// of lowering anew.
#pragma once

#include "lower/program.h"

namespace tandem::lower {

// `program` was lowered from `before`; makes it that of `mapped`, on the same devices. Leaves it as
// it is, and returns false, where the graphs differ in more than extents of activations, or where
// extents decide which tasks there are: windows and buckets.
bool resize(Program& program, const plan::MappedGraph& before, const plan::MappedGraph& mapped);

}  // namespace tandem::lower

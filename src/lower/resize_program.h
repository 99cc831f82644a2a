// Conversion of a program to a graph that differs only in extents, for example in the batch size.
// The tasks are the same; only the sizes of buffers change. This takes a fraction of the time of a
// lowering.
//
// Example: 4 devices split a batch of 64. With a batch of 32, an activation [64, 512] has shards of
// [8, 512] instead of [16, 512]. Weights keep their sizes.
#pragma once

#include "lower/program.h"

namespace tandem::lower {

// Converts `program`, lowered from `before`, to the program of `mapped` on the same devices.
// Returns false and leaves it unchanged if the graphs differ in more than extents of activations,
// or if extents determine the tasks, as with windows and buckets.
bool resize_program(Program& program, const plan::MappedGraph& before,
                    const plan::MappedGraph& mapped);

}  // namespace tandem::lower

// Counts the memory of tensors through ATen's CPU allocator.
#pragma once

#include "base/units.h"

namespace tandem::runtime {

// Starts counting. Call it once, before the first tensor.
void count_tensor_memory();

// Starts a step: tensors allocated until the next call belong to it (runtime/arena.h).
void begin_tensor_step();

// Returns the peak memory of all tensors.
Bytes get_peak_tensor_memory();

// Returns the resident memory of this process now.
Bytes read_resident_memory();

}  // namespace tandem::runtime

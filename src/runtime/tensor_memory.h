// What tensors take of memory: ATen's allocator for processors, counted.
#pragma once

#include "base/units.h"

namespace tandem::runtime {

// From now on. Before the first tensor, and once.
void count_tensor_memory();

// What is allocated until the next one is a step's (runtime/arena.h).
void begin_step_of_tensors();

// The most there was at once.
Bytes peak_tensor_memory();

// What the process has of the computer's memory now.
Bytes resident_memory();

}  // namespace tandem::runtime

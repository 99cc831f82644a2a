// The GPUs that are visible to CUDA.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace tandem::runtime {

// Returns 0 also if there is no driver.
std::int64_t count_gpus();
// Makes the GPU with this index the current one.
void use_gpu(std::int8_t index);
void wait_for_gpu();
Bytes peak_gpu_memory(std::int8_t index);

}  // namespace tandem::runtime

// The GPUs that CUDA shows.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace tandem::runtime {

// None where there is no driver, too.
std::int64_t count_gpus();
// From now on, for what does not say which.
void use_gpu(std::int8_t index);
void wait_for_gpu();
Bytes peak_gpu_memory(std::int8_t index);

}  // namespace tandem::runtime

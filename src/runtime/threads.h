// How many threads this process computes with: one, or those of a device with several cores.
#pragma once

#include <cstdint>

namespace tandem::runtime {

// Of ATen's kernels, and of the library that multiplies matrices.
void use_threads(std::int64_t count);
std::int64_t threads_used();

}  // namespace tandem::runtime

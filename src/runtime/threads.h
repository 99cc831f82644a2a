// The number of threads with which this process computes: one, or as many as its device has cores.
#pragma once

#include <cstdint>

namespace tandem::runtime {

// Sets the number of threads of ATen's kernels and of the BLAS library.
void use_threads(std::int64_t count);
std::int64_t get_thread_count();

}  // namespace tandem::runtime

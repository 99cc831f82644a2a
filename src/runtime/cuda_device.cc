#include "runtime/cuda_device.h"

#pragma push_macro("CHECK")
#undef CHECK
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#undef CHECK
#pragma pop_macro("CHECK")

namespace tandem::runtime {

std::int64_t count_gpus() { return c10::cuda::device_count(); }

void use_gpu(std::int8_t index) {
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
  // libtorch rounds the operands of fp32 convolutions to TF32 (10 bits of mantissa) by default.
  at::globalContext().setAllowTF32CuDNN(false);
}

void wait_for_gpu() { c10::cuda::device_synchronize(); }

Bytes peak_gpu_memory(std::int8_t index) {
  const auto stats =
      c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(index));
  constexpr std::size_t kAllPools = 0;
  return Bytes{static_cast<double>(stats.allocated_bytes[kAllPools].peak)};
}

}  // namespace tandem::runtime

// NCCL between GPUs, one for each process.
#pragma once

#include <memory>

#include "runtime/device_network.h"

namespace tandem::runtime {

// `device` is the one in use.
std::unique_ptr<DeviceNetwork> make_cuda_network(at::Device device);

}  // namespace tandem::runtime

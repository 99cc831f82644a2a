// NCCL between GPUs; each process has one GPU.
#pragma once

#include <memory>

#include "runtime/device_network.h"

namespace tandem::runtime {

// Returns the network of `device`, which is the current GPU.
std::unique_ptr<DeviceNetwork> make_cuda_network(at::Device device);

}  // namespace tandem::runtime

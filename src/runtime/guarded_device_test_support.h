// A device for tests whose memory the CPU may not access, as with a GPU. libtorch takes it for an
// accelerator; the CPU computes its operators on copies. An operand on another device is an error.
// Direct reads or writes of its memory end the program.
#pragma once

#include <memory>

#include "runtime/device_network.h"

namespace tandem::runtime {

at::Device guarded_device();

// Returns a network between such devices, which copies through MPI. Messages have no tags, as in
// NCCL.
std::unique_ptr<DeviceNetwork> make_guarded_network();

}  // namespace tandem::runtime

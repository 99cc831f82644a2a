// For tests: a device whose memory the processor may not touch, as it may not a GPU's. libtorch
// takes it for an accelerator; what it computes is computed by the processor on copies. An operand
// that lies elsewhere is an error, and reading or writing its memory by hand ends the program.
#pragma once

#include <memory>

#include "runtime/device_network.h"

namespace tandem::runtime {

at::Device guarded_device();

// Between such devices: their copies go through MPI. Messages have no tags, as with NCCL.
std::unique_ptr<DeviceNetwork> make_guarded_network();

}  // namespace tandem::runtime

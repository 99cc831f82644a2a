// Where the tensors of a process lie and operators compute: in the computer's memory, or on one of
// its GPUs. What only CUDA can do is in cuda_*.cc, which are compiled where libtorch has CUDA.
#pragma once

#include <memory>
#include <string>

#include "base/units.h"
#include "runtime/tensor.h"

namespace tandem::runtime {

class DeviceNetwork;
struct World;

// How many devices of this kind, "cpu" or "cuda", this process sees. Throws UserError where there
// are none, or this program is built without.
std::int64_t visible_devices(const std::string& kind);

// Of those the one for this process: processes on one computer take them in turn.
at::Device choose_device(const std::string& kind, const World& world);

// Null where processes talk through the computer's memory: those that compute there, and those of
// a computer that has fewer GPUs than processes, for NCCL wants one for each. All of MPI_COMM_WORLD
// call it.
std::unique_ptr<DeviceNetwork> make_network(at::Device device, const World& world);

// Waits until the device has done what it was asked to.
void synchronize(at::Device device);

// The most that tensors took on the device at once.
Bytes peak_memory(at::Device device);

}  // namespace tandem::runtime

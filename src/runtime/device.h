// The device that holds the tensors of a process and computes with them: the CPU or a GPU. Code
// that needs CUDA is in cuda_*.cc, which are compiled only if libtorch has CUDA.
#pragma once

#include <memory>
#include <string>

#include "base/units.h"
#include "runtime/tensor.h"

namespace tandem::runtime {

class DeviceNetwork;
struct World;

// Returns how many devices of `kind`, "cpu" or "cuda", this process sees. Throws UserError if there
// are none or this program is built without CUDA.
std::int64_t count_visible_devices(const std::string& kind);

// Returns the visible device for this process. The processes on one computer take its devices
// round-robin.
at::Device choose_device(const std::string& kind, const World& world);

// Returns the network between the processes' devices. All processes of MPI_COMM_WORLD call it.
// Returns null if their data goes through host memory: on CPUs, and on a computer with fewer GPUs
// than processes, because NCCL needs one GPU per process.
std::unique_ptr<DeviceNetwork> make_network(at::Device device, const World& world);

// Waits until the device has done all queued work.
void synchronize(at::Device device);

// Returns the peak memory of tensors on the device.
Bytes get_peak_memory(at::Device device);

}  // namespace tandem::runtime

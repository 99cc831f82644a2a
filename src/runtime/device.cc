#include "runtime/device.h"

#include <mpi.h>

#include <cstdlib>

#include "base/error.h"
#include "runtime/device_network.h"
#include "runtime/tensor_memory.h"
#include "runtime/world.h"

#ifdef TANDEM_HAS_CUDA
#include "runtime/cuda_device.h"
#include "runtime/cuda_network.h"
#endif

namespace tandem::runtime {

std::int64_t count_visible_devices(const std::string& kind) {
  if (kind == "cpu") return 1;
  if (kind != "cuda") {
    throw UserError("flag", "--device", fmt::format("unknown device '{}'", kind),
                    "expected cpu or cuda");
  }
#ifdef TANDEM_HAS_CUDA
  const auto count = count_gpus();
  if (count > 0) return count;
  throw UserError(
      "runtime", "--device cuda", "no CUDA device is visible",
      "CUDA requires an NVIDIA GPU and its driver; CUDA_VISIBLE_DEVICES may hide the GPU");
#else
  throw UserError("runtime", "--device cuda", "this program was built without CUDA",
                  "build with tools/build_cuda, see docs/guides/train.md");
#endif
}

at::Device choose_device(const std::string& kind, const World& world) {
  const auto count = count_visible_devices(kind);
  if (kind == "cpu") return at::kCPU;
  const auto index = static_cast<at::DeviceIndex>(world.local_rank % count);
#ifdef TANDEM_HAS_CUDA
  use_gpu(index);
#endif
  return {at::kCUDA, index};
}

std::unique_ptr<DeviceNetwork> make_network([[maybe_unused]] at::Device device,
                                            [[maybe_unused]] const World& world) {
#ifdef TANDEM_HAS_CUDA
  if (!device.is_cuda()) return nullptr;
  // With NCCL_HOSTID set, NCCL takes processes to be on different computers. They may then share a
  // GPU, and communicate through sockets.
  const bool apart = std::getenv("NCCL_HOSTID") != nullptr;
  const bool own = apart || world.local_size <= count_gpus();
  int all_own = own ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &all_own, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (all_own != 0) return make_cuda_network(device);
#endif
  return nullptr;
}

void synchronize([[maybe_unused]] at::Device device) {
#ifdef TANDEM_HAS_CUDA
  if (device.is_cuda()) wait_for_gpu();
#endif
}

Bytes get_peak_memory(at::Device device) {
#ifdef TANDEM_HAS_CUDA
  if (device.is_cuda()) return peak_gpu_memory(device.index());
#endif
  CHECK(!device.is_cuda());
  return get_peak_tensor_memory();
}

}  // namespace tandem::runtime

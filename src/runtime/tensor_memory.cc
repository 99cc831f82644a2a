#include "runtime/tensor_memory.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <mutex>

#include "runtime/arena.h"
#include "runtime/aten.h"

namespace tandem::runtime {

namespace {

// malloc serves smaller tensors.
constexpr std::size_t kLarge = 64 << 10;

std::int64_t used = 0;
std::int64_t most = 0;
std::mutex lock;  // Guards these, and the arena

Arena& get_arena() {
  static auto* out = new Arena;  // Leaked: tensors may be freed at program end
  return *out;
}

void free_counted(void* memory) {
  if (memory == nullptr) return;
  const std::scoped_lock alone(lock);
  std::size_t bytes = 0;
  if (!get_arena().free(memory, bytes)) {
    bytes = malloc_usable_size(memory);
    c10::free_cpu(memory);
  }
  used -= static_cast<std::int64_t>(bytes);
}

// One of the two `allocate` functions overrides the library's; which one depends on its version.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) const { return allocate_counted(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return allocate_counted(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return free_counted; }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }

 private:
  static c10::DataPtr allocate_counted(std::size_t bytes) {
    if (bytes == 0) return {nullptr, nullptr, free_counted, c10::DeviceType::CPU};
    const std::scoped_lock alone(lock);
    void* memory = bytes < kLarge ? nullptr : get_arena().allocate(bytes);
    std::size_t taken = Arena::round_up(bytes);
    if (memory == nullptr) {
      memory = c10::alloc_cpu(bytes);
      taken = malloc_usable_size(memory);
    }
    used += static_cast<std::int64_t>(taken);
    most = std::max(most, used);
    return {memory, memory, free_counted, c10::DeviceType::CPU};
  }
};

}  // namespace

void count_tensor_memory() {
  static CountingAllocator allocator;
  c10::SetCPUAllocator(&allocator, 1);
}

void begin_tensor_step() {
  const std::scoped_lock alone(lock);
  get_arena().begin_step();
}

Bytes get_peak_tensor_memory() { return Bytes{static_cast<double>(most)}; }

Bytes read_resident_memory() {
  std::ifstream in("/proc/self/statm");
  std::int64_t size = 0;
  std::int64_t pages = 0;
  in >> size >> pages;
  return Bytes{static_cast<double>(pages * sysconf(_SC_PAGESIZE))};
}

}  // namespace tandem::runtime

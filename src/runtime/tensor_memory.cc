#include "runtime/tensor_memory.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "runtime/aten.h"

namespace tandem::runtime {

namespace {

std::atomic<std::int64_t> used{0};
std::atomic<std::int64_t> most{0};

void count_freed(void* memory) {
  if (memory == nullptr) return;
  used -= static_cast<std::int64_t>(malloc_usable_size(memory));
  c10::free_cpu(memory);
}

// Which of the two functions that differ by `const` is the library's depends on its version.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) const { return get(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return get(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return count_freed; }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }

 private:
  static c10::DataPtr get(std::size_t bytes) {
    void* memory = bytes == 0 ? nullptr : c10::alloc_cpu(bytes);
    if (memory != nullptr) {
      const auto now = used += static_cast<std::int64_t>(malloc_usable_size(memory));
      auto before = most.load();
      while (before < now && !most.compare_exchange_weak(before, now)) {
      }
    }
    return {memory, memory, count_freed, c10::DeviceType::CPU};
  }
};

}  // namespace

void count_tensor_memory() {
  static CountingAllocator allocator;
  c10::SetCPUAllocator(&allocator, 1);
}

Bytes peak_tensor_memory() { return Bytes{static_cast<double>(most.load())}; }

Bytes resident_memory() {
  std::ifstream in("/proc/self/statm");
  std::int64_t size = 0;
  std::int64_t pages = 0;
  in >> size >> pages;
  return Bytes{static_cast<double>(pages * sysconf(_SC_PAGESIZE))};
}

}  // namespace tandem::runtime

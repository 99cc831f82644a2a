// operator new and delete of the program `tandem`: blocks of up to 256 bytes come from lists that
// each thread has, one for each size, and go back to them. Proving rules and searching make and
// drop a hundred million such blocks; malloc's share of that was a fifth of the time.
//
// Blocks are cut from one range of addresses that is reserved once, in pages of one size each, so
// that a pointer says what list it belongs to. A list that is long, and those of a thread that
// ends, go to one for all threads. Memory is not given back. Larger blocks, and all where no range
// can be reserved, are malloc's. With sanitizers everything is.
#ifndef TANDEM_SANITIZE

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>

namespace {

constexpr std::size_t kStep = 16;  // sizes are multiples of it
constexpr std::size_t kLargest = 256;
constexpr std::size_t kSizes = kLargest / kStep;
constexpr std::size_t kPage = std::size_t{1} << 16U;
constexpr std::size_t kReserved = std::size_t{1} << 36U;  // of addresses: 64 GiB
constexpr std::size_t kLongest = std::size_t{1} << 18U;   // bytes in a thread's list

struct Block {
  Block* next;
};

struct List {
  Block* first = nullptr;
  std::size_t count = 0;

  void push(Block* block) {
    block->next = first;
    first = block;
    ++count;
  }
  Block* pop() {
    auto* block = first;
    first = block->next;
    --count;
    return block;
  }
};

// Lists of lists, by size, for all threads.
struct Shared {
  struct Chain {
    std::mutex mutex;
    std::array<List, 1024> lists;
    std::size_t count = 0;
  };
  std::array<Chain, kSizes> chains;
};

// What is needed before anything is made and after everything is gone.
constinit Shared shared;
constinit std::atomic<std::byte*> range = nullptr;
constinit std::atomic<std::size_t> pages_taken = 0;
constinit std::array<std::uint8_t, kReserved / kPage> size_of_page = {};

thread_local constinit std::array<List, kSizes> lists = {};

bool give(List& list, std::size_t size) {
  auto& chain = shared.chains[size];
  const std::scoped_lock lock(chain.mutex);
  if (chain.count == chain.lists.size()) return false;
  chain.lists[chain.count++] = list;
  list = {};
  return true;
}

// Of a thread that ends.
struct Leaving {
  ~Leaving() {
    for (std::size_t size = 0; size < kSizes; ++size) {
      if (lists[size].first != nullptr) give(lists[size], size);
    }
  }
};

std::byte* reserved() {
  static std::byte* const begin = [] {
    constexpr int kKind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    auto* at = mmap(nullptr, kReserved + kPage, PROT_READ | PROT_WRITE, kKind, -1, 0);
    if (at == MAP_FAILED) return static_cast<std::byte*>(nullptr);
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    auto* aligned = static_cast<std::byte*>(at) + (kPage - address % kPage) % kPage;
    range.store(aligned, std::memory_order_release);
    return aligned;
  }();
  return begin;
}

// False where there is no more.
bool refill(List& list, std::size_t size) {
  static thread_local const Leaving leaving;
  {
    auto& chain = shared.chains[size];
    const std::scoped_lock lock(chain.mutex);
    if (chain.count > 0) {
      list = chain.lists[--chain.count];
      return true;
    }
  }
  auto* begin = reserved();
  if (begin == nullptr || pages_taken.load() >= size_of_page.size()) return false;
  const auto page = pages_taken++;
  if (page >= size_of_page.size()) return false;
  size_of_page[page] = static_cast<std::uint8_t>(size);
  const auto bytes = (size + 1) * kStep;
  auto* at = begin + page * kPage;
  for (std::size_t i = kPage / bytes; i-- > 0;) {
    list.push(reinterpret_cast<Block*>(at + i * bytes));
  }
  return true;
}

void* large(std::size_t bytes) {
  if (auto* block = std::malloc(bytes)) return block;
  throw std::bad_alloc();
}

void release(void* block) {
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(block) -
                                               range.load(std::memory_order_relaxed));
  if (offset >= kReserved || range.load(std::memory_order_relaxed) == nullptr) {
    return std::free(block);
  }
  const std::size_t size = size_of_page[offset / kPage];
  auto& list = lists[size];
  list.push(static_cast<Block*>(block));
  if (list.count * (size + 1) * kStep > kLongest) give(list, size);
}

}  // namespace

void* operator new(std::size_t bytes) {
  if (bytes > kLargest) return large(bytes);
  const auto size = bytes == 0 ? 0 : (bytes - 1) / kStep;
  auto& list = lists[size];
  if (list.first == nullptr && !refill(list, size)) return large(bytes);
  return list.pop();
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void operator delete(void* block) noexcept { release(block); }
void operator delete(void* block, std::size_t /*bytes*/) noexcept { release(block); }
void operator delete[](void* block) noexcept { release(block); }
void operator delete[](void* block, std::size_t /*bytes*/) noexcept { release(block); }

#endif  // TANDEM_SANITIZE

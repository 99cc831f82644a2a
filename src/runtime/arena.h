// Places the large tensors of a training step in one memory region. All steps allocate and free in
// the same order. The first step is therefore watched, and later steps place their tensors at
// precomputed offsets that leave few holes. The holes of malloc would take a quarter of the
// tensors' memory.
//
// malloc serves tensors that deviate from the watched step or outlive their step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace tandem::runtime {

// Size of a tensor and the events of a step between which it exists: [begin, end).
struct Lifetime {
  std::size_t bytes = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// Offsets of tensors in a region, by tensor, and the region's length.
struct ArenaLayout {
  std::vector<std::size_t> at;
  std::size_t length = 0;
};
// Places the largest tensors first, each at the lowest offset that is free during its lifetime.
// Example: 2 bytes during [0, 2), 1 byte during [1, 3), 2 bytes during [2, 4) -> offsets 0, 2, 0
// and length 3.
ArenaLayout place_tensors(const std::vector<Lifetime>& tensors);

// The allocator of a step's large tensors. It is not thread-safe.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Returns the bytes that a tensor of `bytes` bytes takes: whole pages.
  static std::size_t round_up(std::size_t bytes);

  void begin_step();
  // Returns null if the system has no memory or the arena has no place for the tensor. The caller
  // then uses malloc.
  void* allocate(std::size_t bytes);
  // Frees `memory` and stores its size in `bytes`. Returns false if it does not belong to the
  // arena.
  bool free(void* memory, std::size_t& bytes);

 private:
  struct Watched {
    Lifetime lifetime;
    bool ended = false;
  };
  struct ArenaSlot {
    std::size_t bytes = 0;
    std::size_t at = 0;
    bool used = false;  // False if the tensor outlived its step
  };
  void lay_out();
  [[nodiscard]] bool is_free(const ArenaSlot& place) const;
  void* take_slot(std::size_t bytes);
  void* map(std::size_t bytes);

  enum class ArenaState : std::uint8_t { kBefore, kWatching, kPlaced } phase_ = ArenaState::kBefore;
  std::size_t now_ = 0;  // Number of events so far in the watched step
  std::vector<Watched> watched_;
  std::map<void*, std::size_t> watched_at_;  // Live tensors: address to index in watched_
  std::vector<ArenaSlot> places_;            // In order of allocation
  std::size_t next_ = 0;  // Index in places_ from which the next allocation searches
  char* region_ = nullptr;
  std::size_t length_ = 0;
  std::map<std::size_t, std::size_t> taken_;  // Parts of the region in use: begin to end
  std::map<void*, std::size_t> mapped_;       // Tensors outside the region: address to size
};

}  // namespace tandem::runtime

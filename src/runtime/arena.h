// Where the large tensors of a step lie. All steps allocate and free alike, so the first one is
// watched, and the others have their tensors in one region at places that leave no holes: of
// malloc's holes a process would have up to a quarter of its tensors' memory beside them.
//
// What is not as it was, or lasts beyond its step, is left to malloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace tandem::runtime {

// A tensor of a step: there from one event to before another.
struct Lifetime {
  std::size_t bytes = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// The places of tensors in a region, the largest first, each as low as it fits. By tensor; and how
// long the region is.
struct Places {
  std::vector<std::size_t> at;
  std::size_t length = 0;
};
Places place(const std::vector<Lifetime>& tensors);

// Not thread-safe.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // What a tensor takes.
  static std::size_t rounded_up(std::size_t bytes);

  void begin_step();
  // Null where there is no memory, or no place: then malloc has some that it has had before.
  void* allocate(std::size_t bytes);
  // False if it is not of here.
  bool free(void* memory, std::size_t& bytes);

 private:
  struct Watched {
    Lifetime lifetime;
    bool ended = false;
  };
  struct Place {
    std::size_t bytes = 0;
    std::size_t at = 0;
    bool used = false;  // else the tensor outlived its step
  };
  void lay_out();
  [[nodiscard]] bool is_free(const Place& place) const;
  void* take_place(std::size_t bytes);
  void* map(std::size_t bytes);

  enum class Phase : std::uint8_t { kBefore, kWatching, kPlaced } phase_ = Phase::kBefore;
  std::size_t now_ = 0;  // events of the step that is watched
  std::vector<Watched> watched_;
  std::map<void*, std::size_t> watched_at_;  // that are there
  std::vector<Place> places_;                // in the order of allocation
  std::size_t next_ = 0;                     // place of the step
  char* region_ = nullptr;
  std::size_t length_ = 0;
  std::map<std::size_t, std::size_t> taken_;  // of the region: begin to end
  std::map<void*, std::size_t> mapped_;       // elsewhere
};

}  // namespace tandem::runtime

#include "runtime/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <numeric>

namespace tandem::runtime {

namespace {

constexpr std::size_t kAlignment = 4096;

char* map_region(std::size_t bytes) {
  void* out = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (out == MAP_FAILED) return nullptr;
  madvise(out, bytes, MADV_HUGEPAGE);
  return static_cast<char*>(out);
}

}  // namespace

ArenaLayout place_tensors(const std::vector<Lifetime>& tensors) {
  ArenaLayout out{std::vector<std::size_t>(tensors.size()), 0};
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return tensors[i].bytes; });
  std::vector<std::size_t> placed;  // Ordered by offset
  for (const auto i : order) {
    std::size_t at = 0;
    for (const auto other : placed) {
      const bool together =
          tensors[other].begin < tensors[i].end && tensors[i].begin < tensors[other].end;
      if (!together) continue;
      if (at + tensors[i].bytes <= out.at[other]) break;
      at = std::max(at, out.at[other] + tensors[other].bytes);
    }
    out.at[i] = at;
    out.length = std::max(out.length, at + tensors[i].bytes);
    const auto behind =
        std::ranges::upper_bound(placed, at, {}, [&](std::size_t p) { return out.at[p]; });
    placed.insert(behind, i);
  }
  return out;
}

std::size_t Arena::round_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Arena::~Arena() {
  if (region_ != nullptr) munmap(region_, length_);
}

void Arena::begin_step() {
  if (phase_ == ArenaState::kWatching) {
    lay_out();
  } else if (phase_ == ArenaState::kBefore) {
    phase_ = ArenaState::kWatching;
  }
  next_ = 0;
}

void Arena::lay_out() {
  phase_ = ArenaState::kPlaced;
  std::vector<Lifetime> ended;
  for (const auto& w : watched_) {
    if (w.ended) ended.push_back(w.lifetime);
  }
  const auto found = place_tensors(ended);
  std::size_t n = 0;
  for (const auto& w : watched_) {
    places_.push_back({w.lifetime.bytes, w.ended ? found.at[n++] : 0, w.ended});
  }
  watched_.clear();
  watched_at_.clear();
  if (found.length == 0) return;
  region_ = map_region(found.length);
  length_ = region_ == nullptr ? 0 : found.length;
}

void* Arena::allocate(std::size_t bytes) {
  bytes = round_up(bytes);
  return phase_ == ArenaState::kPlaced ? take_slot(bytes) : map(bytes);
}

// Returns the place of the next tensor of this size, or null. Skips up to kMostLeftOut places,
// because some tensors of the watched step may not come again.
void* Arena::take_slot(std::size_t bytes) {
  constexpr std::size_t kMostLeftOut = 16;
  const auto end = std::min(places_.size(), next_ + kMostLeftOut);
  for (auto i = next_; i < end; ++i) {
    const auto& place = places_[i];
    if (place.bytes != bytes) continue;
    next_ = i + 1;
    if (!place.used || region_ == nullptr || !is_free(place)) return nullptr;
    taken_[place.at] = place.at + bytes;
    return region_ + place.at;
  }
  return nullptr;
}

bool Arena::is_free(const ArenaSlot& place) const {
  const auto after = taken_.lower_bound(place.at + place.bytes);
  return after == taken_.begin() || std::prev(after)->second <= place.at;
}

void* Arena::map(std::size_t bytes) {
  auto* out = map_region(bytes);
  if (out == nullptr) return nullptr;
  mapped_[out] = bytes;
  if (phase_ == ArenaState::kWatching) {
    watched_at_[out] = watched_.size();
    watched_.push_back({{bytes, now_++, 0}, false});
  }
  return out;
}

bool Arena::free(void* memory, std::size_t& bytes) {
  auto* at = static_cast<char*>(memory);
  if (region_ != nullptr && at >= region_ && at < region_ + length_) {
    const auto place = taken_.find(static_cast<std::size_t>(at - region_));
    bytes = place->second - place->first;
    taken_.erase(place);
    return true;
  }
  const auto found = mapped_.find(memory);
  if (found == mapped_.end()) return false;
  bytes = found->second;
  mapped_.erase(found);
  munmap(memory, bytes);
  if (const auto seen = watched_at_.find(memory); seen != watched_at_.end()) {
    auto& w = watched_[seen->second];
    w.lifetime.end = now_++;
    w.ended = true;
    watched_at_.erase(seen);
  }
  return true;
}

}  // namespace tandem::runtime

#include "machine/packed_rings.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tandem::machine {

namespace {

constexpr std::size_t kMost = 8;  // largest group, as the search for rings is exhaustive

// Free room on the links between the units of a group, in rings.
class Packing {
 public:
  explicit Packing(std::size_t units) : units_(units) {}

  void add(std::size_t a, std::size_t b, int rings) {
    room_[a][b] += rings;
    room_[b][a] += rings;
  }

  // Returns an upper bound of the number of rings: each ring uses two links of every unit.
  [[nodiscard]] int compute_bound() const {
    int out = std::numeric_limits<int>::max();
    for (std::size_t u = 0; u < units_; ++u) {
      int sum = 0;
      for (std::size_t v = 0; v < units_; ++v) sum += room_[u][v];
      out = std::min(out, sum / 2);
    }
    return out;
  }

  bool can_pack(int rings) {
    steps_ = 0;
    return can_pack_more(rings);
  }

 private:
  // Extends a ring from `at`, the last of the set `visited`, then searches for `rings` - 1 more
  // rings.
  bool extend(std::size_t at, unsigned visited, int rings) {
    if (++steps_ > kMostSteps) return false;
    if (visited == (1U << units_) - 1) {
      if (room_[at][0] == 0) return false;
      take(at, 0);
      if (can_pack_more(rings - 1)) return true;
      release(at, 0);
      return false;
    }
    for (std::size_t next = 1; next < units_; ++next) {
      if ((visited >> next & 1U) != 0 || room_[at][next] == 0) continue;
      take(at, next);
      if (extend(next, visited | 1U << next, rings)) return true;
      release(at, next);
    }
    return false;
  }

  bool can_pack_more(int rings) { return rings == 0 || extend(0, 1, rings); }

  void take(std::size_t a, std::size_t b) { add(a, b, -1); }
  void release(std::size_t a, std::size_t b) { add(a, b, 1); }

  static constexpr int kMostSteps = 200'000;
  std::size_t units_;
  int steps_ = 0;
  std::array<std::array<int, kMost>, kMost> room_ = {};
};

}  // namespace

std::optional<double> compute_packed_rings_load(std::span<const std::int32_t> group,
                                                std::span<const Network::Link> links) {
  if (group.size() < 3 || group.size() > kMost) return std::nullopt;
  const auto rank = [&](std::int32_t unit) {
    return static_cast<std::size_t>(std::ranges::find(group, unit) - group.begin());
  };
  std::vector<Network::Link> inside;
  for (const auto& l : links) {
    if (rank(l.a) == group.size() || rank(l.b) == group.size()) continue;
    if (l.half_duplex) return std::nullopt;
    inside.push_back(l);
  }
  if (inside.empty()) return std::nullopt;
  const auto thinnest = std::ranges::min(inside, {}, &Network::Link::capacity).capacity;
  Packing packing(group.size());
  for (const auto& l : inside) {
    constexpr double kRounding = 1e-9;
    const auto most = static_cast<double>(2 * kMost);
    packing.add(rank(l.a), rank(l.b),
                static_cast<int>(std::min(most, l.capacity / thinnest + kRounding)));
  }
  for (auto rings = packing.compute_bound(); rings > 0; --rings) {
    if (packing.can_pack(rings)) return 1 / (2 * rings * thinnest);
  }
  return std::nullopt;
}

}  // namespace tandem::machine

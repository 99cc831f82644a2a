#include "search/solver/min_plus_block.h"

#include <algorithm>
#include <bit>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "search/solver/min_plus.h"

namespace tandem::search {

namespace {

template <std::size_t kLanes>
struct Loops {
  static constexpr std::size_t kVectors = kBlock / kLanes;
  using Costs [[gnu::vector_size(kLanes * sizeof(float))]] = float;
  using States [[gnu::vector_size(kLanes * sizeof(std::int32_t))]] = std::int32_t;

  [[gnu::always_inline]] static Costs load(const float* from) {
    Costs out;
    std::memcpy(&out, from, sizeof out);
    return out;
  }

  [[gnu::always_inline]] static Costs lesser(const Costs& a, const Costs& b) {
    return a < b ? a : b;
  }

  [[gnu::always_inline]] static float find_least(const Costs& costs) {
#if defined(__x86_64__)
    __m128 four[kLanes / 4];
    std::memcpy(four, &costs, sizeof costs);
    __m128 out = four[0];
    for (std::size_t i = 1; i < kLanes / 4; ++i) out = _mm_min_ps(out, four[i]);
    out = _mm_min_ps(out, _mm_movehl_ps(out, out));
    return _mm_cvtss_f32(_mm_min_ss(out, _mm_shuffle_ps(out, out, 1)));
#else
    float all[kLanes];
    std::memcpy(all, &costs, sizeof costs);
    return *std::min_element(all, all + kLanes);
#endif
  }

  [[gnu::always_inline]] static BlockBounds bounds(const float* block) {
    Costs least = load(block);
    Costs most = least;
    for (std::size_t i = 1; i < kVectors; ++i) {
      const Costs next = load(block + i * kLanes);
      least = next < least ? next : least;
      most = next > most ? next : most;
    }
    return {find_least(least), -find_least(-most)};
  }

  [[gnu::always_inline]] static float least(const float* entries, std::size_t count) {
    float out = entries[0];
    std::size_t i = 0;
    if (count >= kLanes) {
      Costs here = load(entries);
      for (i = kLanes; i + kLanes <= count; i += kLanes) here = lesser(load(entries + i), here);
      out = find_least(here);
    }
    for (; i < count; ++i) out = std::min(out, entries[i]);
    return out;
  }

  // Returns a bit mask of the lanes that are set.
  [[gnu::always_inline]] static std::uint64_t to_bits(const States& set) {
    std::uint64_t out = 0;
#if defined(__x86_64__)
    __m128 four[kLanes / 4];
    std::memcpy(four, &set, sizeof set);
    for (std::size_t i = 0; i < kLanes / 4; ++i) {
      out |= static_cast<std::uint64_t>(_mm_movemask_ps(four[i])) << (4 * i);
    }
#else
    std::int32_t all[kLanes];
    std::memcpy(all, &set, sizeof set);
    for (std::size_t i = 0; i < kLanes; ++i) out |= std::uint64_t{all[i] != 0} << i;
#endif
    return out;
  }

  // Returns an upper bound of every column's minimum.
  [[gnu::always_inline]] static Costs compute_upper_bound(const BlockTask& task) {
    Costs out = Costs{} + kImpossible;
    for (std::size_t v = 0; v < task.states; v += kLanes) {
      out = lesser(load(task.base + v) + load(task.most + v), out);
    }
    return Costs{} + find_least(out);
  }

  // Returns a bit mask of those of the 64 states from `v` on that may give a minimum: their lower
  // bound is no higher than `known`.
  [[gnu::always_inline]] static std::uint64_t find_hopeful(const BlockTask& task, std::size_t v,
                                                           const Costs& known) {
    std::uint64_t out = 0;
    const auto end = std::min(task.states, v + 64);
    for (std::size_t s = v; s < end; s += kLanes) {
      const States may = load(task.base + s) + load(task.least + s) <= known;
      out |= to_bits(may) << (s - v);
    }
    return out;
  }

  struct Minima {
    Costs cost[kVectors];
    States state[kVectors];
  };

  [[gnu::always_inline]] static void add(Minima& minima, const BlockTask& task, std::size_t v) {
    const Costs base = Costs{} + task.base[v];
    const States own = States{} + static_cast<std::int32_t>(v);
    const float* row = task.addends[0].cost + v * task.addends[0].stride;
    Costs sum[kVectors];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kVectors; ++i) sum[i] = load(row + i * kLanes);
    for (std::size_t a = 1; a < task.count; ++a) {
      const float* more = task.addends[a].cost + v * task.addends[a].stride;
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kVectors; ++i) sum[i] += load(more + i * kLanes);
    }
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kVectors; ++i) {
      const Costs candidate = base + sum[i];
      const States better = candidate < minima.cost[i];
      minima.cost[i] = better ? candidate : minima.cost[i];
      minima.state[i] = better ? own : minima.state[i];
    }
  }

  [[gnu::always_inline]] static void minimize(const BlockTask& task, float* cost,
                                              std::uint32_t* best) {
    const Costs known = Loops::compute_upper_bound(task);
    Minima minima;
    for (auto& c : minima.cost) c = Costs{} + kImpossible;
    for (auto& s : minima.state) s = States{};
    for (std::size_t v = 0; v < task.states; v += 64) {
      for (auto left = find_hopeful(task, v, known); left != 0; left &= left - 1) {
        add(minima, task, v + static_cast<std::size_t>(std::countr_zero(left)));
      }
    }
    std::memcpy(cost, minima.cost, sizeof minima.cost);
    std::memcpy(best, minima.state, sizeof minima.state);
  }
};

constexpr BlockKernels kAny = {Loops<4>::minimize, Loops<4>::bounds, Loops<4>::least};

#if defined(__x86_64__)
[[gnu::target("avx2")]] void minimize_avx2(const BlockTask& task, float* cost,
                                           std::uint32_t* best) {
  Loops<8>::minimize(task, cost, best);
}
[[gnu::target("avx2")]] BlockBounds bounds_avx2(const float* block) {
  return Loops<8>::bounds(block);
}
[[gnu::target("avx2")]] float least_avx2(const float* entries, std::size_t count) {
  return Loops<8>::least(entries, count);
}
constexpr BlockKernels kAvx2 = {minimize_avx2, bounds_avx2, least_avx2};
#endif

}  // namespace

const BlockKernels& get_portable_block_kernels() { return kAny; }

const BlockKernels& get_block_kernels() {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return kAvx2;
#endif
  return kAny;
}

}  // namespace tandem::search

// Degrees must divide the size that they cut. If one does not, messages name the nearest that does.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace tandem {

// Returns the divisor of `size` nearest to `wanted`, the smaller one of two equally near: 12, 5 ->
// 4. For sizes beyond 2^40 it considers only divisors up to 2^20 and their cofactors.
inline std::int64_t find_nearest_divisor(std::int64_t size, std::int64_t wanted) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20U;
  const auto distance = [&](std::int64_t n) { return n > wanted ? n - wanted : wanted - n; };
  std::int64_t best = 1;
  const auto offer = [&](std::int64_t n) {
    const bool nearer = distance(n) < distance(best);
    if (nearer || (distance(n) == distance(best) && n < best)) best = n;
  };
  for (std::int64_t n = 1; n <= kMost && n <= size / n; ++n) {
    if (size % n != 0) continue;
    offer(n);
    offer(size / n);
  }
  return best;
}

inline std::string make_nearest_degree_hint(std::int64_t size, std::int64_t degree) {
  return fmt::format("the nearest degree that does is {}", find_nearest_divisor(size, degree));
}

}  // namespace tandem

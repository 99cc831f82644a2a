#include "base/divisor.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tandem {
namespace {

TEST(NearestDivisor, FindsTheNearest) {
  for (std::int64_t size = 1; size <= 60; ++size) {
    for (std::int64_t wanted = 1; wanted <= 70; ++wanted) {
      std::int64_t best = 1;
      for (std::int64_t n = 1; n <= size; ++n) {
        if (size % n == 0 && std::abs(n - wanted) < std::abs(best - wanted)) best = n;
      }
      EXPECT_EQ(find_nearest_divisor(size, wanted), best) << size << " " << wanted;
    }
  }
}

TEST(NearestDivisor, HandlesLargeSizesQuickly) {
  EXPECT_EQ(find_nearest_divisor(9223372036854775807, 9223372036854775806), 9223372036854775807);
  EXPECT_EQ(find_nearest_divisor(1125899906842597, 3), 1);
  EXPECT_EQ(find_nearest_divisor(50257, 8), 1);
}

}  // namespace
}  // namespace tandem

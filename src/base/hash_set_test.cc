#include "base/hash_set.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(HashSet, StoresEachValueOnce) {
  HashSet set;
  constexpr Hash kMany = 1000;
  for (Hash i = 0; i < kMany; ++i) EXPECT_TRUE(set.insert(mix(i)));
  for (Hash i = 0; i < kMany; ++i) EXPECT_FALSE(set.insert(mix(i)));
  for (Hash i = 0; i < 2 * kMany; ++i) EXPECT_EQ(set.contains(mix(i)), i < kMany);
}

// 0 marks a free place, so it needs a separate test.
TEST(HashSet, StoresZeroAndCollidingValues) {
  HashSet set;
  EXPECT_FALSE(set.contains(0));
  EXPECT_TRUE(set.insert(0));
  EXPECT_FALSE(set.insert(0));
  for (Hash i = 1; i < 20; ++i) EXPECT_TRUE(set.insert(i << 32U));
  for (Hash i = 0; i < 40; ++i) EXPECT_EQ(set.contains(i << 32U), i < 20);
}

}  // namespace
}  // namespace tandem

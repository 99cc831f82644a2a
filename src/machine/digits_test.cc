#include "machine/digits.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem::machine {
namespace {

using Sizes = std::vector<std::int64_t>;

// Returns a machine with levels of these counts.
Machine make_machine(const Sizes& counts) {
  Machine m;
  for (const auto count : counts) m.levels.emplace_back().count = count;
  return m;
}

Sizes list_sizes(const Digits& digits) {
  Sizes out;
  for (std::size_t i = 0; i < digits.count(); ++i) out.push_back(digits[i].size);
  return out;
}

TEST(Digits, FactorizeLevelsOutermostFirst) {
  struct Case {
    Sizes counts, sizes;
  };
  const Case cases[] = {
      {{8, 2, 3}, {2, 2, 2, 2, 3}},
      {{12}, {2, 2, 3}},
      {{3, 2}, {3, 2}},
      {{1}, {}},
      {{1, 6, 1}, {2, 3}},
      {{90}, {2, 3, 3, 5}},
      {{1048573}, {1048573}},
      {{1 << 20}, Sizes(20, 2)},
  };
  for (const auto& c : cases) EXPECT_EQ(list_sizes(Digits(make_machine(c.counts))), c.sizes);
}

TEST(Digits, KnowTheirLevels) {
  const Digits digits(make_machine({8, 2, 3}));
  EXPECT_EQ(digits[0].level, 0U);
  EXPECT_EQ(digits[2].level, 0U);
  EXPECT_EQ(digits[3].level, 1U);
  EXPECT_EQ(digits[4].level, 2U);
  EXPECT_EQ(digits.devices(), 48);
}

TEST(Digits, LocateTheLastDeviceOfSummit) {
  const Digits digits(make_machine({8, 2, 3}));
  const auto coordinates = [&](std::int64_t device) {
    Sizes out;
    for (std::size_t i = 0; i < digits.count(); ++i) out.push_back(digits.coordinate(device, i));
    return out;
  };
  EXPECT_EQ(coordinates(47), (Sizes{1, 1, 1, 1, 2}));
  EXPECT_EQ(coordinates(4), (Sizes{0, 0, 0, 1, 1}));
}

TEST(Digits, StartWithMicroBatches) {
  const Digits digits(make_machine({2, 3}), 4);
  EXPECT_EQ(list_sizes(digits), (Sizes{4, 2, 3}));
  EXPECT_EQ(digits[0].level, kTimeLevel);
  EXPECT_EQ(digits.time(), 1U);
  EXPECT_EQ(digits.space(), 0b110U);
  EXPECT_EQ(digits.devices(), 6);
  EXPECT_EQ(digits.slot(5, 3), 23);
  EXPECT_EQ(digits.coordinate(23, 0), 3);
  EXPECT_EQ(digits.rank_in_group(23, digits.space()), 5);
  EXPECT_EQ(digits.group(5, digits.time()), (Sizes{5, 11, 17, 23}));
  EXPECT_EQ(Digits(make_machine({2, 3})).time(), 0U);
}

TEST(Digits, ComputeGroupSizes) {
  const Digits digits(make_machine({8, 2, 3}));
  EXPECT_EQ(digits.group_size(0), 1);
  EXPECT_EQ(digits.group_size(0b10001), 6);
  EXPECT_EQ(digits.group_size(0b11111, 0), 8);
  EXPECT_EQ(digits.group_size(0b11001, 1), 2);
  EXPECT_EQ(digits.group_size(0b10001, 1), 1);
}

TEST(Digits, ComputeGroups) {
  const Digits digits(make_machine({8, 2, 3}));
  EXPECT_EQ(digits.group(47, 0), (Sizes{47}));
  EXPECT_EQ(digits.group(47, 0b10000), (Sizes{45, 46, 47}));
  EXPECT_EQ(digits.group(47, 0b01000), (Sizes{44, 47}));
  EXPECT_EQ(digits.group(1, 0b01001), (Sizes{1, 4, 25, 28}));
}

// Checks for every device and mask: a group lists its devices in ascending order, each at its own
// rank, and all share the coordinates outside of the mask.
TEST(Digits, AgreeInRanksAndGroups) {
  const Digits digits(make_machine({4, 1, 6}));
  for (DigitMask mask = 0; mask <= digits.all(); ++mask) {
    for (std::int64_t device = 0; device < digits.devices(); ++device) {
      const auto group = digits.group(device, mask);
      ASSERT_EQ(static_cast<std::int64_t>(group.size()), digits.group_size(mask));
      EXPECT_TRUE(std::ranges::is_sorted(group));
      EXPECT_EQ(group[static_cast<std::size_t>(digits.rank_in_group(device, mask))], device);
      for (std::size_t rank = 0; rank < group.size(); ++rank) {
        EXPECT_EQ(digits.member(device, mask, static_cast<std::int64_t>(rank)), group[rank]);
      }
      for (const auto other : group) {
        EXPECT_EQ(digits.rank_in_group(other, digits.all() & ~mask),
                  digits.rank_in_group(device, digits.all() & ~mask));
      }
    }
  }
}

}  // namespace
}  // namespace tandem::machine

#include "predict/class_groups.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "machine/machine.h"

namespace tandem::predict {
namespace {

// Compares with the groups of Digits, for all class digits and all digits of a move.
TEST(ClassGroups, EqualTheGroupsOfTheirRepresentatives) {
  const auto machine = machine::load_machine("summit:2");
  const machine::Digits digits(machine, 2);
  for (machine::DigitMask class_digits = 0; class_digits <= digits.all(); ++class_digits) {
    if ((class_digits & ~digits.space()) != 0) continue;
    ClassGroups groups(digits, class_digits);
    ASSERT_EQ(static_cast<std::int64_t>(groups.count()), digits.group_size(class_digits));
    for (std::int64_t device = 0; device < digits.devices(); ++device) {
      EXPECT_EQ(static_cast<std::int64_t>(groups.get_class(device)),
                digits.rank_in_group(device, class_digits));
    }
    for (std::size_t c = 0; c < groups.count(); ++c) {
      for (machine::DigitMask mask = 0; mask <= digits.space(); ++mask) {
        if ((mask & ~digits.space()) != 0) continue;
        std::vector<std::uint32_t> expected;
        for (auto device : digits.group(groups.device(c), mask & class_digits)) {
          expected.push_back(static_cast<std::uint32_t>(groups.get_class(device)));
        }
        EXPECT_EQ(groups.get_group(c, mask), expected);
        const auto members = digits.group(groups.device(c), mask);
        EXPECT_EQ(groups.get_member_class(c, mask, std::ssize(members) - 1),
                  groups.get_class(members.back()));
      }
    }
  }
}

// Joins the first devices of both nodes, and in each node all other devices.
TEST(ClassGroups, ListEachJoinedClassOnce) {
  const auto machine = machine::load_machine("summit:2");
  const machine::Digits digits(machine);
  ClassGroups groups(digits, digits.all());
  groups.join({0, 1, 1, 1, 1, 1, 0, 2, 2, 2, 2, 2});
  ASSERT_EQ(groups.count(), 3U);
  EXPECT_EQ(groups.device(0), 0);
  EXPECT_EQ(groups.device(1), 1);
  EXPECT_EQ(groups.device(2), 7);
  EXPECT_EQ(groups.joined_classes(0), (std::vector<std::uint32_t>{0, 6}));
  EXPECT_EQ(groups.joined_classes(2), (std::vector<std::uint32_t>{7, 8, 9, 10, 11}));
  EXPECT_EQ(groups.get_class(6), 0U);
  EXPECT_EQ(groups.get_class(11), 2U);
  EXPECT_EQ(groups.get_group(2, digits.all()), (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(groups.get_group(0, 0), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(groups.get_member_class(2, digits.all(), 6), 0U);
}

}  // namespace
}  // namespace tandem::predict

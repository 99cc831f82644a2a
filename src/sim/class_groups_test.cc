#include "sim/class_groups.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "machine/machine.h"

namespace tandem::sim {
namespace {

// What the digits say of devices, for every choice of digits that tell classes and of a move's.
TEST(ClassGroups, AreTheGroupsOfTheDevicesThatStandForThem) {
  const auto machine = machine::load_machine("summit:2");
  const machine::Digits digits(machine, 2);
  for (machine::DigitMask told = 0; told <= digits.all(); ++told) {
    if ((told & ~digits.space()) != 0) continue;
    ClassGroups groups(digits, told);
    ASSERT_EQ(static_cast<std::int64_t>(groups.count()), digits.group_size(told));
    for (std::int64_t device = 0; device < digits.devices(); ++device) {
      EXPECT_EQ(static_cast<std::int64_t>(groups.class_of(device)),
                digits.rank_in_group(device, told));
    }
    for (std::size_t c = 0; c < groups.count(); ++c) {
      for (machine::DigitMask mask = 0; mask <= digits.space(); ++mask) {
        if ((mask & ~digits.space()) != 0) continue;
        std::vector<std::uint32_t> expected;
        for (auto device : digits.group(groups.device(c), mask & told)) {
          expected.push_back(static_cast<std::uint32_t>(groups.class_of(device)));
        }
        EXPECT_EQ(groups.of(c, mask), expected);
        const auto members = digits.group(groups.device(c), mask);
        EXPECT_EQ(groups.member(c, mask, std::ssize(members) - 1), groups.class_of(members.back()));
      }
    }
  }
}

}  // namespace
}  // namespace tandem::sim

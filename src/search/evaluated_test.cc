// Tests of the memory that a device may use.
#include "search/evaluated.h"

#include <gtest/gtest.h>

namespace tandem::search {
namespace {

machine::Machine memory_machine(std::vector<double> memory, double reserve) {
  machine::Machine out;
  for (const auto bytes : memory) {
    auto& group = out.groups.emplace_back();
    group.device.memory = Bytes{bytes};
    group.device.reserve = Bytes{reserve};
  }
  out.device = out.groups[0].device;
  if (memory.size() == 1) out.groups.clear();
  return out;
}

TEST(MemoryLimits, TakeTheMarginOfTheWholeDevice) {
  const auto machine = memory_machine({80e9}, 1e9);
  EXPECT_EQ(compute_memory_limits(machine, {}, 0), (std::vector{Bytes{79e9}}));
  EXPECT_EQ(compute_memory_limits(machine, {}, kDefaultMargin), (std::vector{Bytes{75e9}}));
  EXPECT_EQ(compute_memory_limits(machine, {}, 0.995), (std::vector{Bytes{0}}));
}

TEST(MemoryLimits, DifferByGroup) {
  const auto machine = memory_machine({80e9, 40e9}, 1e9);
  EXPECT_EQ(compute_memory_limits(machine, {}, 0.5), (std::vector{Bytes{39e9}, Bytes{19e9}}));
}

TEST(MemoryLimits, UseAGivenLimitExactlyOrLessItsMargin) {
  const auto machine = memory_machine({80e9, 40e9}, 1e9);
  EXPECT_EQ(compute_memory_limits(machine, Bytes{10e9}), (std::vector{Bytes{10e9}, Bytes{10e9}}));
  EXPECT_EQ(compute_memory_limits(machine, Bytes{10e9}, 0.25),
            (std::vector{Bytes{7.5e9}, Bytes{7.5e9}}));
}

TEST(MemoryLimits, DescribeTheMargin) {
  EXPECT_EQ(format_margin({}, 0), "");
  EXPECT_EQ(format_margin({}, 0.05), " (5 % of the device left free)");
  EXPECT_EQ(format_margin(Bytes{1e9}, 0.125), " (12.5 % of --memory left free)");
}

}  // namespace
}  // namespace tandem::search

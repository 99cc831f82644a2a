#include "machine/submachine.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem::machine {
namespace {

constexpr const char* kMixed = R"(machine mixed
doc toy

device A
  memory 40 GB
  bandwidth 1 TB/s
  peak fp32 100 TFLOP/s

device B
  memory 16 GB
  bandwidth 1 TB/s
  peak fp32 10 TFLOP/s

level node 4
  bandwidth 25 GB/s
  latency 4 us
  group slow B 1
  group fast A 3

level gpu 2
  bandwidth 100 GB/s
  latency 2 us
)";

TEST(WithUnits, RetainsTheUnitsInUse) {
  const auto machine = load_machine("dgx_h100:6,use=5/4,software=megatron");
  EXPECT_EQ(machine.name, "dgx_h100:6,use=5/4,software=megatron");
  EXPECT_EQ(machine.devices(), 20);
  EXPECT_EQ(machine.software, "megatron");
  EXPECT_EQ(load_machine("dgx_h100:6,use=6/8").name, "dgx_h100:6");
}

// Plans on a submachine of a submachine can be read.
TEST(WithUnits, ComposesSubmachines) {
  const auto machine = load_machine("dgx_h100:6,use=5/4,software=megatron");
  const auto part = make_submachine(machine, {3, 4}).value();
  EXPECT_EQ(part.name, "dgx_h100:6,use=3/4,software=megatron");
  EXPECT_EQ(load_machine(part.name).devices(), part.devices());
}

TEST(WithUnits, DropsTheSlowest) {
  const auto mixed = parse_machine(kMixed, "mixed.machine");
  const auto three = make_submachine(mixed, {3, 2}).value();
  EXPECT_TRUE(three.groups.empty());
  EXPECT_EQ(three.device.name, "A");
  const auto four = make_submachine(mixed, {4, 1}).value();
  EXPECT_EQ(four.groups.size(), 2U);
  EXPECT_EQ(four.devices(), 4);
}

// A100 GPUs with 40 GB and with 80 GB compute at the same rate.
TEST(WithUnits, DropsTheSmallestAmongEquallyFast) {
  auto mixed = parse_machine(kMixed, "mixed.machine");
  auto small = mixed.groups[1].device;
  small.memory = 0.5 * small.memory;
  mixed.groups[0].device = small;
  EXPECT_EQ(make_submachine(mixed, {3, 2})->device.memory, mixed.groups[1].device.memory);
  std::swap(mixed.groups[0].device, mixed.groups[1].device);
  EXPECT_EQ(make_submachine(mixed, {1, 2})->device.memory, mixed.groups[0].device.memory);
}

std::string error(const std::string& name) {
  try {
    load_machine(name);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

TEST(WithUnits, ReportsErrors) {
  EXPECT_EQ(error("dgx_h100:6,use=5"),
            "dgx_h100:6: use=5: the machine has 2 levels (give the number of used units for each "
            "level, at most use=6/8)");
  EXPECT_EQ(error("dgx_h100:6,use=7/8"),
            "dgx_h100:6: use=7/8: '7' is not an integer from 1 to 6 (give the number of used units "
            "for each level, at most use=6/8)");
  EXPECT_EQ(error("dgx_h100:6,use=x/8"),
            "dgx_h100:6: use=x/8: 'x' is not an integer from 1 to 6 (give the number of used units "
            "for each level, at most use=6/8)");
}

}  // namespace
}  // namespace tandem::machine

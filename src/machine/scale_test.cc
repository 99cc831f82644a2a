#include "machine/scale.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem::machine {
namespace {

std::string get_error(std::string_view text) {
  try {
    parse_scale(text);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Scale, RoundTripsText) {
  for (const char* text : {"none", "compute=10", "memory=2", "capacity=2,bandwidth=3",
                           "compute=2.5,intra=0.5,inter=9,latency=0.1,launch=0.25"}) {
    EXPECT_EQ(to_text(parse_scale(text)), text);
  }
  EXPECT_EQ(parse_scale("memory=10"), (Scale{.capacity = 10, .bandwidth = 10}));
  EXPECT_EQ(parse_scale(" compute = 1 "), Scale{});
}

TEST(Scale, ReportsErrors) {
  EXPECT_EQ(get_error("speed=2"),
            "--scale: 'speed' cannot be scaled (expected one of: memory, compute, capacity, "
            "bandwidth, intra, inter, latency, launch)");
  const std::string hint = " (expected a factor from 1e-6 to 1e6)";
  EXPECT_EQ(get_error("compute=0"), "--scale: compute cannot be '0'" + hint);
  EXPECT_EQ(get_error("inter=-2"), "--scale: inter cannot be '-2'" + hint);
  EXPECT_EQ(get_error("inter=nan"), "--scale: inter cannot be 'nan'" + hint);
  EXPECT_EQ(get_error("inter=fast"), "--scale: inter cannot be 'fast'" + hint);
  EXPECT_EQ(get_error("inter"), "--scale: inter cannot be ''" + hint);
  EXPECT_EQ(get_error("inter=2,inter=3"), "--scale: 'inter' is given twice");
  EXPECT_EQ(get_error("memory=2,capacity=3"), "--scale: 'capacity' is given twice");
  EXPECT_EQ(get_error(""), "--scale: is empty (write it like compute=10,inter=10)");
}

TEST(Scale, MultipliesTheNamedFields) {
  const auto m = load_machine("dgx_a100:2");
  const auto s =
      scale_machine(m, parse_scale("compute=2,capacity=3,bandwidth=4,intra=5,inter=6,latency=7"));
  EXPECT_EQ(s.device.peak.at(DType::kBf16).value, 2 * m.device.peak.at(DType::kBf16).value);
  EXPECT_EQ(s.device.memory.value, 3 * m.device.memory.value);
  EXPECT_EQ(s.device.reserve, m.device.reserve);
  EXPECT_EQ(s.device.bandwidth.value, 4 * m.device.bandwidth.value);
  EXPECT_EQ(s.levels[1].bandwidth.value, 5 * m.levels[1].bandwidth.value);
  EXPECT_EQ(s.levels[0].bandwidth.value, 6 * m.levels[0].bandwidth.value);
  EXPECT_EQ(s.levels[0].latency.value, 7 * m.levels[0].latency.value);
  EXPECT_EQ(s.device.launch, m.device.launch);
  EXPECT_EQ(hash_machine(scale_machine(m, {})), hash_machine(m));
  EXPECT_NE(hash_machine(s), hash_machine(m));
}

constexpr std::string_view kRing = R"(machine ring
device thing
  memory 16 GB
  reserve 2 GB
  bandwidth 900 GB/s
  peak fp32 10 TFLOP/s
level box 8
  bandwidth 24 GB/s
  latency 2 us
  topology ring
)";

TEST(Scale, ScalesLatenciesOfNetworks) {
  const auto m = parse_machine(kRing, "ring.machine");
  const auto s = scale_machine(m, {.latency = 0.5});
  const std::vector<std::int64_t> digits = {2, 2, 2};
  for (const auto pattern : {Pattern::kRing, Pattern::kChain, Pattern::kAllToAll}) {
    const auto before = m.levels[0].network->compute_cost(pattern, digits, 0b111);
    const auto after = s.levels[0].network->compute_cost(pattern, digits, 0b111);
    EXPECT_EQ(after.latency.value, 0.5 * before.latency.value);
    EXPECT_EQ(after.load, before.load);
  }
  EXPECT_NE(hash_machine(s), hash_machine(m));
}

// A machine of one level is a node: all its links are inside it.
TEST(Scale, TreatsASingleLevelAsInside) {
  const auto m = parse_machine(kRing, "ring.machine");
  EXPECT_EQ(scale_machine(m, {.inter = 3}).levels[0].bandwidth, m.levels[0].bandwidth);
  EXPECT_EQ(scale_machine(m, {.intra = 3}).levels[0].bandwidth.value, 72e9);
}

TEST(Scale, ScalesEveryGroup) {
  const auto m = parse_machine(R"(machine two
device old
  memory 16 GB
  bandwidth 900 GB/s
  peak fp32 10 TFLOP/s
device new
  memory 80 GB
  bandwidth 2000 GB/s
  peak fp32 100 TFLOP/s
level box 2
  bandwidth 24 GB/s
  latency 2 us
  group first old 1
  group second new 1
)",
                               "two.machine");
  const auto s = scale_machine(m, {.compute = 2, .capacity = 0.5});
  EXPECT_EQ(s.groups[0].device.peak.at(DType::kFp32).value, 20e12);
  EXPECT_EQ(s.groups[1].device.peak.at(DType::kFp32).value, 200e12);
  EXPECT_EQ(s.device.peak.at(DType::kFp32).value, 20e12);
  EXPECT_EQ(s.device.memory.value, 8e9);
}

TEST(Scale, RequiresRoomForTheReserve) {
  const auto m = parse_machine(kRing, "ring.machine");
  try {
    (void)scale_machine(m, {.capacity = 0.125});
    FAIL();
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(),
                 "ring: 2 GB of memory leaves nothing after the reserve of 2 GB (use a larger "
                 "factor for the capacity)");
  }
}

}  // namespace
}  // namespace tandem::machine

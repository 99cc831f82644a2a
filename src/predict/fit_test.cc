// Tests that fitting a machine's own predictions reproduces the machine.
#include "predict/fit.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem::predict {
namespace {

using machine::Digits;
using machine::Machine;
using machine::Step;

constexpr Step kKinds[] = {Step::kAllReduce, Step::kAllGather, Step::kReduceScatter,
                           Step::kAllToAll, Step::kSend};

Machine make_known_machine(std::int64_t devices) {
  Machine m;
  m.device.peak = {{DType::kFp64, FlopsPerSecond{50e9}}, {DType::kFp32, FlopsPerSecond{100e9}}};
  m.device.bandwidth = BytesPerSecond{12e9};
  m.device.launch = Seconds{1.5e-6};
  m.levels = {{.name = "process",
               .count = devices,
               .bandwidth = BytesPerSecond{9e9},
               .latency = Seconds{2e-6},
               .utilization = machine::Utilization(std::vector<machine::Utilization::Point>{
                   {Bytes{65536}, 0.6}, {Bytes{1 << 20}, 1}, {Bytes{64 << 20}, 0.2}})}};
  return m;
}

// Returns the profile of `m`. The times of collectives are off by the factor `skew`, alternately up
// and down.
Profile make_profile(const Machine& m, double skew) {
  Profile out{.devices = m.devices(), .resident = Bytes{2e8}, .operators = {}, .collectives = {}};
  for (const auto dtype : {DType::kFp32, DType::kFp64}) {
    for (const auto n : {1, 512, 1024}) {
      MeasuredOperator o{"linear", dtype, {n, n, n}, m.devices(), {}};
      o.time = task_time(m.device, o.work(), dtype);
      out.operators.push_back(o);
    }
  }
  for (const std::int64_t devices : {std::int64_t{1}, m.devices()}) {
    MeasuredOperator o{"add", DType::kFp32, {32 << 20}, devices, {}};
    o.time = task_time(m.device, o.work(), DType::kFp32);
    out.operators.push_back(o);
  }
  const Digits digits(m);
  for (double bytes = 4096; bytes <= 64 << 20; bytes *= 4) {
    double factor = skew;
    for (const auto kind : kKinds) {
      const auto time = collective_time(m, digits, kind, digits.all(), Bytes{bytes});
      out.collectives.push_back({kind, Bytes{bytes}, time * factor});
      factor = 1 / factor;
    }
  }
  return out;
}

double worst_ratio(const Machine& m, const Profile& profile) {
  const Digits digits(m);
  double worst = 1;
  for (const auto& c : profile.collectives) {
    const auto time = collective_time(m, digits, c.kind, digits.all(), c.bytes);
    worst = std::max({worst, time / c.time, c.time / time});
  }
  return worst;
}

Machine fit_machine(const Profile& profile) {
  return machine::parse_machine(format_machine(profile, "2025-03-01, a processor"),
                                "fitted.machine", profile.devices);
}

TEST(Fit, RecoversAMachine) {
  for (const std::int64_t devices : {2, 3, 8}) {
    const auto m = make_known_machine(devices);
    const auto profile = make_profile(m, 1);
    const auto back = fit_machine(profile);
    EXPECT_LT(worst_ratio(back, profile), 1.05) << devices;
    EXPECT_NEAR(back.levels[0].latency.value, 2e-6, 0.1e-6);
    EXPECT_NEAR(back.levels[0].utilization.at(Bytes{64 << 20}), 0.2, 0.01);
    EXPECT_NEAR(back.device.launch.value, 1.5e-6, 0.01e-6);
    EXPECT_NEAR(back.device.bandwidth.value, 12e9, 0.1e9);
    EXPECT_NEAR(back.device.peak.at(DType::kFp64).value, 50e9, 1e9);
    EXPECT_NEAR(back.device.peak.at(DType::kFp32).value, 100e9, 1e9);
    EXPECT_EQ(back.device.reserve, Bytes{0.4e9});
  }
}

// Each collective has its own rates, but all share one latency.
TEST(Fit, DistinguishesCollectives) {
  const auto profile = make_profile(make_known_machine(2), 1.5);
  const auto back = fit_machine(profile);
  EXPECT_LT(worst_ratio(back, profile), 1.5);
  auto large = profile;
  std::erase_if(large.collectives, [](const auto& c) { return c.bytes < Bytes{65536}; });
  EXPECT_LT(worst_ratio(back, large), 1.05);
}

TEST(Fit, AcceptsNoiseThatMakesLongMessagesFaster) {
  auto profile = make_profile(make_known_machine(2), 1);
  for (auto& c : profile.collectives) {
    if (c.bytes == Bytes{1 << 20}) c.time = c.time / 50;
  }
  EXPECT_GT(fit_machine(profile).levels[0].utilization.points().size(), 3U);
}

TEST(Profile, RoundTripsJson) {
  const auto profile = make_profile(make_known_machine(2), 1.1);
  const auto back = parse_profile(to_json(profile).dump());
  EXPECT_EQ(to_json(back).dump(), to_json(profile).dump());
  EXPECT_EQ(back.collectives.size(), profile.collectives.size());
  EXPECT_THROW(parse_profile("{}"), std::exception);
  EXPECT_THROW(parse_profile("nothing"), std::exception);
}

// A device with several cores and no peer.
TEST(Fit, TreatsOneProcessWithThreadsAsOneDevice) {
  auto profile = make_profile(make_known_machine(2), 1);
  profile.devices = 1;
  profile.threads = 2;
  profile.collectives.clear();
  const auto read = parse_profile(to_json(profile).dump());
  EXPECT_EQ(read.threads, 2);
  const auto machine = machine::parse_machine(format_machine(read, "a day"), "two.machine", 1);
  EXPECT_EQ(machine.devices(), 1);
  EXPECT_EQ(machine.device.threads, 2);
  EXPECT_NEAR(machine.device.peak.at(DType::kFp32).value, 100e9, 1e9);
}

// Small matmuls reach little of the bf16 peak. This must not affect fp32.
TEST(Fit, FitsTypesSeparately) {
  auto profile = make_profile(make_known_machine(2), 1);
  double rate = 100e9;
  for (const auto n : {256, 512, 1024}) {
    MeasuredOperator o{"linear", DType::kBf16, {n, n, n}, 2, {}};
    o.time = Seconds{o.work().flops.value / rate};
    profile.operators.push_back(o);
    rate *= 3;
  }
  const auto device = fit_machine(profile).device;
  EXPECT_NEAR(device.compute_utilization, 1, 0.02);
  EXPECT_NEAR(device.peak.at(DType::kFp32).value, 100e9, 1e9);
  EXPECT_NEAR(device.peak.at(DType::kBf16).value * device.compute_utilization, 300e9, 5e9);
}

}  // namespace
}  // namespace tandem::predict

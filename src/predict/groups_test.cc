// Tests machines with different devices. Work on several devices takes as long as on the slowest
// one, and each group has its own memory.
#include <gtest/gtest.h>

#include "lower/lower.h"
#include "models/model.h"
#include "plan/random_choices_test_support.h"
#include "predict/simulate.h"
#include "predict/task_work.h"

namespace tandem::predict {
namespace {

using machine::Digits;
using machine::Machine;
using plan::named_choices;

constexpr double kMicro = 1e-6;

// Returns a device on which each task takes one launch. An all-reduce of 1000 bytes over two
// devices takes 1 us.
machine::Device counting_device(double launches) {
  machine::Device d;
  d.peak = {{DType::kFp32, FlopsPerSecond{1e30}}};
  d.bandwidth = BytesPerSecond{1e30};
  d.launch = Seconds{launches * kMicro};
  return d;
}

// Returns a machine with a group for each of `units`, whose launches take `launches`
// microseconds.
Machine make_grouped_machine(const std::vector<std::int64_t>& units,
                             const std::vector<double>& launches) {
  std::int64_t all = 0;
  Machine m;
  for (std::size_t g = 0; g < units.size(); ++g) {
    all += units[g];
    m.groups.push_back({fmt::format("g{}", g), counting_device(launches[g]), units[g]});
  }
  m.levels = {
      {.name = "node", .count = all, .bandwidth = BytesPerSecond{1e9}, .latency = Seconds{}}};
  m.device = make_weakest_device(m.groups);
  return m;
}

graph::Graph mlp() {
  return models::parse_model("mlp:layers=2,inputs=8,hidden=8,outputs=8").build(8, DType::kFp32);
}

Simulation simulate_choices(const Machine& m, const std::vector<plan::Choice>& choices,
                            lower::Mode mode = lower::Mode::kTraining) {
  const Digits digits(m);
  return simulate(lower::lower(plan::parallelize(mlp(), digits, choices), digits, m.device.software,
                               plan::Optimizer::kSgd, mode),
                  m);
}

std::vector<plan::Choice> data_parallel(const Digits& digits) {
  return named_choices(mlp(), digits,
                       {{"linear1", "d0"}, {"relu1", "d0"}, {"linear2", "d0"}, {"loss", "d0"}});
}

TEST(Groups, AreDistinguishedByTheOutermostDigits) {
  const auto mask = [](const std::vector<std::int64_t>& units) {
    const auto m = make_grouped_machine(units, std::vector<double>(units.size(), 1));
    return find_group_digits(m, Digits(m));
  };
  EXPECT_EQ(mask({8}), 0U);
  EXPECT_EQ(mask({4, 4}), 0b001U);
  EXPECT_EQ(mask({2, 6}), 0b011U);
  EXPECT_EQ(mask({4, 2, 2}), 0b011U);
  EXPECT_EQ(mask({3, 5}), 0b111U);
  // Devices with equal coordinates in these digits belong to one group.
  for (const auto& units : std::vector<std::vector<std::int64_t>>{{4, 2}, {1, 5}, {3, 3}, {5, 7}}) {
    const auto m = make_grouped_machine(units, {1, 2});
    const Digits digits(m, 2);
    const auto tell = find_group_digits(m, digits);
    EXPECT_EQ(tell & digits.time(), 0U);
    for (std::int64_t a = 0; a < m.devices(); ++a) {
      for (std::int64_t b = 0; b < m.devices(); ++b) {
        if (digits.rank_in_group(a, tell) != digits.rank_in_group(b, tell)) continue;
        EXPECT_EQ(m.find_group(a), m.find_group(b));
      }
    }
  }
}

TEST(Groups, LimitDataParallelismToTheSlowest) {
  const auto fast = make_grouped_machine({2}, {1});
  const auto slow = make_grouped_machine({2}, {3});
  const auto both = make_grouped_machine({1, 1}, {1, 3});
  const auto choices = data_parallel(Digits(both));
  // Forward: two linears, a ReLU, the loss.
  const auto inference = lower::Mode::kInference;
  EXPECT_NEAR(simulate_choices(fast, choices, inference).iteration.value, 4 * kMicro, 1e-12);
  EXPECT_NEAR(simulate_choices(both, choices, inference).iteration.value, 12 * kMicro, 1e-12);
  // All-reduces wait for the slow device's gradients.
  const auto s = simulate_choices(both, choices);
  EXPECT_NEAR(s.iteration.value, simulate_choices(slow, choices).iteration.value, 1e-12);
  EXPECT_GT(s.iteration, simulate_choices(fast, choices).iteration);
  // The order of groups does not matter.
  EXPECT_EQ(s.iteration, simulate_choices(make_grouped_machine({1, 1}, {3, 1}), choices).iteration);
}

TEST(Groups, CountOnlyDevicesThatRunATask) {
  // Everything runs on the first device, and the other one is idle.
  const auto m = make_grouped_machine({1, 1}, {1, 3});
  const auto all = named_choices(mlp(), Digits(m), {});
  const auto first = named_choices(
      mlp(), Digits(m), {{"linear1", "-"}, {"relu1", "-"}, {"linear2", "-"}, {"loss", "-"}});
  const auto s = simulate_choices(m, first, lower::Mode::kInference);
  EXPECT_NEAR(s.iteration.value, 4 * kMicro, 1e-12);
  // Both compute the same, and the slow one finishes last.
  EXPECT_NEAR(simulate_choices(m, all, lower::Mode::kInference).iteration.value, 12 * kMicro,
              1e-12);
  // The idle group holds nothing.
  ASSERT_EQ(s.group_memory.size(), 2U);
  EXPECT_GT(s.group_memory[0].peak, Bytes{});
  EXPECT_EQ(s.group_memory[1].peak, Bytes{});
  EXPECT_EQ(s.memory, s.group_memory[0].peak);
}

TEST(Groups, RelateUtilizationToTheSumOfPeaks) {
  auto m = make_grouped_machine({1, 1}, {1, 1});
  m.groups[0].device.peak[DType::kFp32] = FlopsPerSecond{3e9};
  m.groups[1].device.peak[DType::kFp32] = FlopsPerSecond{1e9};
  m.device = make_weakest_device(m.groups);
  const auto s = simulate_choices(m, data_parallel(Digits(m)));
  EXPECT_NEAR(s.mfu, s.model_flops.value / 4e9 / s.iteration.value, 1e-12);
}

// Equal devices take as long in two groups as in one. Their memory differs: devices that are idle
// in a group do not count there.
TEST(Groups, TakeEqualTimeIfDevicesAreEqual) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto parted = make_grouped_machine({2, 2}, {1, 1});
    const auto whole = make_grouped_machine({4}, {1});
    const Digits digits(whole);
    const auto model = plan::random_model(4, seed);
    const auto program =
        lower::lower(plan::parallelize(model, digits, plan::random_choices(model, digits, seed)),
                     digits, whole.device.software, plan::Optimizer::kSgd);
    const auto a = simulate(program, parted);
    const auto b = simulate(program, whole);
    EXPECT_NEAR(a.iteration.value, b.iteration.value, 1e-12 * b.iteration.value) << seed;
    EXPECT_LE(a.memory, b.memory) << seed;
  }
}

TEST(SlowestTaskTime, ConsidersOnlyDevicesOfTheLayout) {
  const auto m = make_grouped_machine({2, 2}, {1, 3});
  const Digits digits(m);
  const auto micros = [&](const char* layout) {
    return slowest_task_time(m, digits, *machine::parse_layout(layout), {}, DType::kFp32).value /
           kMicro;
  };
  EXPECT_NEAR(micros("00"), 3, 1e-9);
  EXPECT_NEAR(micros("rr"), 3, 1e-9);
  EXPECT_NEAR(micros(".0"), 1, 1e-9);
  EXPECT_NEAR(micros("A0"), 3, 1e-9);
  EXPECT_NEAR(micros(".A"), 1, 1e-9);
  EXPECT_NEAR(micros("0A"), 3, 1e-9);
}

}  // namespace
}  // namespace tandem::predict

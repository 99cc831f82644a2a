// Tests device equivalence classes. If each device is a machine group of its own, no two devices
// are equivalent, so that machine simulates every device and serves as the oracle.
#include "predict/equivalent_classes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "lower/lower.h"
#include "plan/random_choices_test_support.h"
#include "predict/simulate.h"

namespace tandem::predict {
namespace {

using machine::Digits;
using machine::Machine;

Machine make_machine(std::int64_t devices, bool distinct) {
  auto m = plan::make_machine({devices});
  m.device.peak = {{DType::kFp32, FlopsPerSecond{1e10}}};
  m.device.bandwidth = BytesPerSecond{1e9};
  m.device.launch = Seconds{1e-6};
  m.levels[0].bandwidth = BytesPerSecond{3e8};
  m.levels[0].latency = Seconds{2e-6};
  for (std::int64_t g = 0; distinct && g < devices; ++g) {
    m.groups.push_back({fmt::format("g{}", g), m.device, 1});
  }
  return m;
}

lower::Program lower_choices(const graph::Graph& model, const Machine& machine,
                             const std::vector<plan::Choice>& choices) {
  const Digits digits(machine);
  return lower::lower(plan::parallelize(model, digits, choices), digits, machine.device.software,
                      plan::Optimizer::kSgd);
}

// Tasks of each device, with start and end.
using Occupations =
    std::map<std::int64_t, std::set<std::tuple<std::uint32_t, std::uint32_t, Seconds, Seconds>>>;

Occupations simulate_work(const lower::Program& program, const Machine& machine,
                          const Simulation& simulation) {
  const ClassGroups classes(
      program.digits, find_class_digits(program) | find_group_digits(machine, program.digits));
  Occupations out;
  for (std::int64_t device = 0; device < program.digits.devices(); ++device) out[device];
  for (auto& [device, work] : out) {
    for (const auto& span : simulation.timeline) {
      if (span.device_class != classes.get_class(device)) continue;
      work.emplace(span.task, span.stream, span.start, span.end);
    }
  }
  return out;
}

std::size_t count_joined(const lower::Program& program, const Machine& machine) {
  ClassGroups classes(program.digits, find_class_digits(program));
  const auto before = classes.count();
  classes.join(find_equivalent_classes(program, machine, Holders(program), classes));
  return before - classes.count();
}

TEST(EquivalentDevices, BehaveAsIfSimulatedOneByOne) {
  std::size_t all_joined = 0;
  for (const std::int64_t devices : {3, 4, 6, 8, 12}) {
    const auto together = make_machine(devices, false);
    const auto apart = make_machine(devices, true);
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      SCOPED_TRACE(fmt::format("{} devices, seed {}", devices, seed));
      const auto model = plan::random_model(devices, seed);
      const auto choices = plan::random_choices(model, Digits(together), seed);
      const auto program = lower_choices(model, together, choices);
      // Otherwise one device represents others from the start, even idle ones.
      if (find_class_digits(program) != program.digits.all()) continue;
      const auto program_apart = lower_choices(model, apart, choices);
      const auto a = simulate(program, together);
      const auto b = simulate(program_apart, apart);
      all_joined += count_joined(program, together);
      ASSERT_EQ(a.iteration, b.iteration);
      ASSERT_EQ(a.memory, b.memory);
      ASSERT_EQ(simulate_work(program, together, a), simulate_work(program_apart, apart, b));
      const auto different = simulate(program, together, Classes::kDifferent);
      EXPECT_EQ(different.iteration, a.iteration);
      EXPECT_EQ(different.compute, a.compute);
      EXPECT_EQ(different.exposed_comm, a.exposed_comm);
      EXPECT_EQ(different.busiest, a.busiest);
      EXPECT_EQ(different.serialized, a.serialized);
    }
  }
  EXPECT_GT(all_joined, 50U);
}

}  // namespace
}  // namespace tandem::predict

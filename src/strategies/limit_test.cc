// Checks that a simulation with a limit abandons only programs that take at least as long.
#include <gtest/gtest.h>

#include "lower/lower.h"
#include "models/model.h"
#include "plan/random_choices_test_support.h"
#include "predict/simulate.h"
#include "strategies/setting_groups.h"

namespace tandem::strategies {
namespace {

void check_limits(const lower::Program& program, const machine::Machine& machine,
                  const std::string& what) {
  const auto all = predict::simulate(program, machine);
  const auto within = [&](double times) {
    return predict::simulate_within(times * all.iteration, program, machine,
                                    predict::Classes::kAll);
  };
  EXPECT_FALSE(within(1)) << what;
  EXPECT_FALSE(within(0.9)) << what;
  EXPECT_FALSE(within(0.1)) << what;
  const auto longer = within(1 + 1e-6);
  ASSERT_TRUE(longer) << what;
  EXPECT_EQ(longer->iteration.value, all.iteration.value) << what;
  EXPECT_EQ(longer->memory.value, all.memory.value) << what;
  EXPECT_EQ(longer->timeline.size(), all.timeline.size()) << what;
}

// The program has scatters and gathers, whose roots are busy longer than the others.
TEST(Limit, AbandonsProgramsThatTakeAsLong) {
  auto machine = machine::load_machine("summit:1");
  const machine::Digits digits(machine);
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    const auto model = plan::random_mlp(digits.devices(), random);
    const auto mapped = plan::parallelize(model, digits, plan::random_choices(model, digits, seed));
    machine.device.software.interference = seed % 2 == 0 ? 0.3 : 0;
    check_limits(lower::lower(mapped, digits, machine.device.software, plan::Optimizer::kSgd),
                 machine, fmt::format("seed {}", seed));
  }
}

TEST(Limit, AbandonsPipelinesThatTakeAsLong) {
  const auto machine = machine::load_machine("summit:2");
  const machine::Digits devices(machine);
  const auto model = models::parse_model("mlp:layers=8,hidden=64").build(96, DType::kFp32);
  const Problem problem(model, devices);
  for (const auto* name :
       {"megatron:tp=3,pp=2,dp=2,micro=8", "megatron:tp=1,pp=4,dp=3,micro=8,interleave=2,zero=1",
        "megatron:tp=1,pp=2,dp=6,micro=4,recompute=full", "fsdp:micro=2"}) {
    for (const auto& setting : list_named_settings(name, problem)) {
      const auto made = make_strategy(setting, problem);
      const auto& strategy = std::get<Strategy>(made);
      const machine::Digits digits(machine, strategy.schedule.micro_batches);
      const auto mapped = plan::parallelize(model, digits, strategy.choices, strategy.schedule);
      check_limits(lower::lower(mapped, digits, machine.device.software, plan::Optimizer::kSgd),
                   machine, name);
    }
  }
}

}  // namespace
}  // namespace tandem::strategies

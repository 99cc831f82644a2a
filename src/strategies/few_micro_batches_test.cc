// Checks that times of many micro-batches, extrapolated from few, equal those of simulating all.
#include "predict/few_micro_batches.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lower/lower.h"
#include "models/model.h"
#include "predict/simulate.h"
#include "strategies/setting_groups.h"

namespace tandem::strategies {
namespace {

struct Case {
  const char* model;
  const char* machine;
  std::int64_t batch;
};

class FewMicroBatches : public testing::TestWithParam<Case> {};

TEST_P(FewMicroBatches, PredictTheTimesOfMany) {
  const auto& [name, machine_name, batch] = GetParam();
  const auto machine = machine::load_machine(machine_name);
  const machine::Digits devices(machine);
  const auto model = models::parse_model(name).build(batch, DType::kBf16);
  const Problem problem(model, devices);
  std::size_t predicted = 0;
  constexpr std::pair<int, int> kPipelines[] = {{1, 1}, {2, 1}, {2, 2}, {3, 1},
                                                {3, 2}, {4, 1}, {6, 1}};
  for (const auto& [ranks, interleave] : kPipelines) {
    if (devices.devices() % (2 * ranks) != 0) continue;
    for (const auto* rest : {"", ",zero=1,recompute=full", ",zero=2"}) {
      for (const auto micro : {60, 120, 192, 384}) {
        const auto text = fmt::format("megatron:tp=2,pp={},interleave={},micro={}{}", ranks,
                                      interleave, micro, rest);
        for (const auto& setting : list_named_settings(text, problem)) {
          const auto made = make_strategy(setting, problem);
          const auto* strategy = std::get_if<Strategy>(&made);
          if (strategy == nullptr) continue;
          const machine::Digits digits(machine, strategy->schedule.micro_batches);
          const auto program =
              lower::lower(plan::parallelize(model, digits, strategy->choices, strategy->schedule),
                           digits, machine.device.software, plan::Optimizer::kAdam);
          if (!predict::find_few_micro_batches(program)) continue;
          ++predicted;
          const auto all = predict::simulate(program, machine, predict::Classes::kDifferent);
          const auto few = predict::simulate_within(2 * all.iteration, program, machine,
                                                    predict::Classes::kDifferent, nullptr,
                                                    predict::Extent::kFew);
          ASSERT_TRUE(few) << strategy->name;
          EXPECT_NEAR(few->iteration / all.iteration, 1, 1e-3) << strategy->name;
          EXPECT_NEAR(few->compute / all.compute, 1, 1e-6) << strategy->name;
          EXPECT_NEAR((few->exposed_comm - all.exposed_comm) / all.iteration, 0, 1e-2)
              << strategy->name;
          EXPECT_DOUBLE_EQ(few->memory.value, all.memory.value) << strategy->name;
          EXPECT_DOUBLE_EQ(few->model_flops.value, all.model_flops.value) << strategy->name;
          for (const auto& [kind, time] : all.serialized) {
            EXPECT_NEAR(few->serialized.at(kind) / time, 1, 1e-6) << strategy->name << ' ' << kind;
          }
        }
      }
    }
  }
  EXPECT_GT(predicted, 10);
}

INSTANTIATE_TEST_SUITE_P(
    Networks, FewMicroBatches,
    testing::Values(Case{"gpt2:layers=12,hidden=256,heads=4,ffn=1024,seq=64", "dgx_a100:1", 768},
                    Case{"gpt2:layers=12,hidden=256,heads=4,ffn=1024,seq=64", "summit:2", 1152},
                    Case{"gpt2:layers=6,hidden=2048,heads=16,ffn=8192,seq=512", "dgx_v100:3", 1152},
                    Case{"llama3_8b:layers=12,hidden=512,heads=8,kv_heads=2,ffn=1024,seq=128",
                         "dgx_h100:3", 2304},
                    Case{"gpt2:layers=12,hidden=512,heads=8,ffn=2048,seq=256",
                         "dgx_a100:2,software=megatron", 1536},
                    Case{"mlp:layers=12,hidden=512", "dgx_a100:2,software=megatron-deepspeed",
                         1536}),
    [](const auto& info) { return fmt::format("Case{}", info.index); });

}  // namespace
}  // namespace tandem::strategies

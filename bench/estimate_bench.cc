// Estimates: one strategy from the model's name on, and a sweep of strategies for one network.
#include <benchmark/benchmark.h>

#include "predict/estimator.h"
#include "strategies/grid.h"

namespace tandem {
namespace {

constexpr predict::Training kTraining{DType::kBf16, plan::Optimizer::kAdam};

void one(benchmark::State& state, const char* machine_name, const char* model_name,
         const char* strategy, std::int64_t batch) {
  const auto machine = machine::load_machine(machine_name);
  const auto setting = strategies::parse_setting(strategy);
  for (auto _ : state) {
    const auto model = models::parse_model(model_name);
    predict::Estimator estimator(model, machine, kTraining);
    benchmark::DoNotOptimize(estimator.estimate(setting, batch));
  }
}

void BM_EstimateGpt3(benchmark::State& state) {
  one(state, "dgx_a100:128", "gpt3_175b", "megatron:tp=8,pp=16,dp=8,micro=128", 2048);
}
void BM_EstimateLlama405B(benchmark::State& state) {
  one(state, "dgx_h100:2048", "llama3_405b", "megatron:tp=8,pp=2,dp=1024,sp,micro=2", 2048);
}

// Every degree of tensor and pipeline parallelism, size of micro-batch, interleaving,
// recomputation.
std::vector<strategies::Setting> sweep_of_gpt3() {
  std::vector<strategies::Setting> out;
  constexpr std::int64_t kDevices = 1024;
  constexpr std::int64_t kBatch = 2048;
  for (const std::int64_t tp : {1, 2, 4, 8}) {
    for (const std::int64_t pp : {1, 2, 4, 8, 16, 32}) {
      const auto dp = kDevices / tp / pp;
      for (const std::int64_t size : {1, 2, 4, 8}) {
        const auto micro = kBatch / dp / size;
        if (micro < pp) continue;
        for (const std::int64_t interleave : {1, 2, 3, 4, 6}) {
          if (interleave > 1 && (pp == 1 || micro % pp != 0 || 96 % (pp * interleave) != 0))
            continue;
          for (const char* recompute : {"none", "selective", "full"}) {
            for (const bool sp : {false, true}) {
              if (sp && tp == 1) continue;
              out.push_back({.family = strategies::Family::kMegatron,
                             .tp = {tp},
                             .dp = dp,
                             .sp = sp,
                             .pp = pp,
                             .micro = micro,
                             .interleave = interleave,
                             .recompute = recompute});
            }
          }
        }
      }
    }
  }
  return out;
}

void BM_SweepGpt3(benchmark::State& state) {
  const auto machine = machine::load_machine("dgx_a100:128");
  const auto model = models::parse_model("gpt3_175b");
  const auto settings = sweep_of_gpt3();
  std::int64_t estimated = 0;
  for (auto _ : state) {
    predict::Estimator estimator(model, machine, kTraining);
    for (const auto& s : settings) estimated += estimator.estimate(s, 2048).has_value() ? 1 : 0;
  }
  state.SetItemsProcessed(estimated);
  state.counters["strategies"] = static_cast<double>(settings.size());
}

BENCHMARK(BM_EstimateGpt3)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_EstimateLlama405B)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_SweepGpt3)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tandem

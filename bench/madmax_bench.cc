// MAD-Max's public model: evaluations per second of parsed inputs.
#include <benchmark/benchmark.h>

#include "madmax/published_test_support.h"

namespace {

using namespace tandem::madmax;

void run_evaluation(benchmark::State& state, const Model& model, const System& system,
                    const TaskDescription& task) {
  for (auto _ : state) benchmark::DoNotOptimize(tandem::madmax::evaluate(model, system, task));
  state.SetItemsProcessed(state.iterations());
}

void BM_MadMaxDlrmA(benchmark::State& state) {
  const auto system = a100_system(128);
  const auto mlp = flat(Method::kReplicate, system);
  run_evaluation(state, dlrm_a(), system,
                 recommendation_task(Purpose::kPretrain, mlp, 65536, system));
}
BENCHMARK(BM_MadMaxDlrmA);

void BM_MadMaxGpt3(benchmark::State& state) {
  const auto system = a100_system(2048);
  const auto strategy = flat(Method::kShard, system);
  run_evaluation(state, gpt3(), system, language_task(gpt3(), strategy, 2048, system));
}
BENCHMARK(BM_MadMaxGpt3);

}  // namespace

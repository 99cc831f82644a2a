// The whole search, baselines included: bert_large of n layers on 48 GPUs, and the three networks.
#include <benchmark/benchmark.h>

#include "machine/machine.h"
#include "models/model.h"
#include "search/search.h"

namespace {

void run_search(benchmark::State& state, const std::string& model_text,
                const std::string& machine_text) {
  using namespace tandem;
  const auto model = models::parse_model(model_text);
  const auto machine = machine::load_machine(machine_text);
  const auto graph = model.build(model.spec->batch_per_device * machine.devices(), DType::kFp32);
  search::Options options;
  options.memory = Bytes{1e12};
  search::Result result;
  for (auto _ : state) {
    result = search::search(graph, machine, options);
    benchmark::DoNotOptimize(result);
  }
  state.counters["candidates"] = static_cast<double>(result.candidates);
  state.counters["products"] = static_cast<double>(result.computed_tables);
}

void BM_SearchLayers(benchmark::State& state) {
  run_search(state, fmt::format("bert_large:layers={}", state.range(0)), "summit:8");
}
BENCHMARK(BM_SearchLayers)->RangeMultiplier(2)->Range(3, 192)->Unit(benchmark::kMillisecond);

void BM_SearchNodes(benchmark::State& state) {
  run_search(state, "bert_large", fmt::format("summit:{}", state.range(0)));
}
BENCHMARK(BM_SearchNodes)->RangeMultiplier(2)->Range(1, 64)->Unit(benchmark::kMillisecond);

void BM_SearchMlp(benchmark::State& state) { run_search(state, "mlp", "summit:8"); }
BENCHMARK(BM_SearchMlp)->Unit(benchmark::kMillisecond);

void BM_SearchDlrm(benchmark::State& state) { run_search(state, "dlrm", "summit:8"); }
BENCHMARK(BM_SearchDlrm)->Unit(benchmark::kMillisecond);

}  // namespace

// Lowering and simulating known strategies for all of BERT-Large on 48 devices, and handling its
// graph: what every candidate plan costs the planner.
#include <benchmark/benchmark.h>

#include "graph/hashes.h"
#include "graph/text.h"
#include "lower/lower.h"
#include "models/model.h"
#include "sim/simulate.h"
#include "strategies/strategies.h"

namespace tandem {
namespace {

constexpr machine::DigitMask kSockets = 0b1000;  // of node, node, node, socket, gpu: tp=2

struct Setting {
  machine::Machine summit = machine::load_machine("summit:8");
  machine::Digits digits{summit};
  graph::Graph model = models::parse_model("bert_large").build(4 * 48, DType::kFp32);

  [[nodiscard]] strategies::Strategy strategy(machine::DigitMask tensor) const {
    return strategies::megatron(model, digits, tensor).value();
  }
  [[nodiscard]] plan::MappedGraph mapped(machine::DigitMask tensor) const {
    return plan::parallelize(model, digits, strategy(tensor).choices);
  }
  [[nodiscard]] lower::Program program(machine::DigitMask tensor) const {
    return lower::lower(mapped(tensor), digits, plan::Optimizer::kAdam);
  }
};

const Setting& setting() {
  static const Setting kSetting;
  return kSetting;
}

machine::DigitMask tensor_digits(const benchmark::State& state) {
  return state.range(0) == 0 ? 0 : kSockets;
}

void BM_Strategy(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(setting().strategy(tensor_digits(state)));
}

void BM_Parallelize(benchmark::State& state) {
  const auto& s = setting();
  const auto strategy = s.strategy(tensor_digits(state));
  for (auto _ : state) {
    benchmark::DoNotOptimize(plan::parallelize(s.model, s.digits, strategy.choices));
  }
}

void BM_Lower(benchmark::State& state) {
  const auto& s = setting();
  const auto mapped = s.mapped(tensor_digits(state));
  for (auto _ : state) {
    benchmark::DoNotOptimize(lower::lower(mapped, s.digits, plan::Optimizer::kAdam));
  }
  state.counters["tasks"] = static_cast<double>(s.program(tensor_digits(state)).tasks.size());
}

void BM_Simulate(benchmark::State& state) {
  const auto& s = setting();
  const auto program = s.program(tensor_digits(state));
  for (auto _ : state) benchmark::DoNotOptimize(sim::simulate(program, s.summit));
}

void BM_HashGraph(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(graph::hash_graph(setting().model, graph::HashKind::kIdentity));
    benchmark::DoNotOptimize(graph::hash_graph(setting().model, graph::HashKind::kShape));
  }
  state.counters["nodes"] = static_cast<double>(setting().model.size());
}

void BM_PrintGraph(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(graph::to_text(setting().model));
}

void BM_ParseGraph(benchmark::State& state) {
  const auto text = graph::to_text(setting().model);
  for (auto _ : state) benchmark::DoNotOptimize(graph::parse_graph(text));
}

BENCHMARK(BM_Strategy)->ArgName("megatron")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Parallelize)->ArgName("megatron")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Lower)->ArgName("megatron")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Simulate)->ArgName("megatron")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_HashGraph)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_PrintGraph)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_ParseGraph)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tandem

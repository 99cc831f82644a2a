// Lowering and simulating known strategies for all of BERT-Large on 48 devices, and handling its
// graph: the planner's cost of every candidate plan.
#include <benchmark/benchmark.h>

#include "graph/hashes.h"
#include "graph/text.h"
#include "lower/lower.h"
#include "models/model.h"
#include "predict/simulate.h"
#include "strategies/grid.h"

namespace tandem {
namespace {

struct Setting {
  machine::Machine summit = machine::load_machine("summit:8");
  machine::Digits digits{summit};
  graph::Graph model = models::parse_model("bert_large").build(4 * 48, DType::kFp32);

  [[nodiscard]] strategies::Strategy make_strategy(const std::string& name) const {
    return strategies::make_named_strategies(name, model, digits)[0];
  }
  [[nodiscard]] plan::MappedGraph make_mapped(const std::string& name) const {
    return plan::parallelize(model, digits, make_strategy(name).choices);
  }
  [[nodiscard]] lower::Program make_program(const std::string& name) const {
    return lower::lower(make_mapped(name), digits, summit.device.software, plan::Optimizer::kAdam);
  }
};

const Setting& get_setting() {
  static const Setting kSetting;
  return kSetting;
}

const char* get_strategy_name(const benchmark::State& state) {
  return state.range(0) == 0 ? "dp" : "megatron:tp=2";
}

void BM_Strategy(benchmark::State& state) {
  for (auto _ : state)
    benchmark::DoNotOptimize(get_setting().make_strategy(get_strategy_name(state)));
}

void BM_Parallelize(benchmark::State& state) {
  const auto& s = get_setting();
  const auto strategy = s.make_strategy(get_strategy_name(state));
  for (auto _ : state) {
    benchmark::DoNotOptimize(plan::parallelize(s.model, s.digits, strategy.choices));
  }
}

void BM_Lower(benchmark::State& state) {
  const auto& s = get_setting();
  const auto mapped = s.make_mapped(get_strategy_name(state));
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        lower::lower(mapped, s.digits, s.summit.device.software, plan::Optimizer::kAdam));
  }
  state.counters["tasks"] =
      static_cast<double>(s.make_program(get_strategy_name(state)).tasks.size());
}

void BM_Simulate(benchmark::State& state) {
  const auto& s = get_setting();
  const auto program = s.make_program(get_strategy_name(state));
  for (auto _ : state) benchmark::DoNotOptimize(predict::simulate(program, s.summit));
}

// GPT-3 on 1,024 devices: tensor parallelism in the node, 16 stages, 128 micro-batches.
struct Gpt3 {
  machine::Machine dgx = machine::load_machine("dgx_a100:128");
  graph::Graph model = models::parse_model("gpt3_175b").build(2048, DType::kBf16);
  strategies::Strategy strategy =
      strategies::make_named_strategies("megatron:tp=8,pp=16,dp=8", model, machine::Digits(dgx))[0];
  machine::Digits digits{dgx, strategy.schedule.micro_batches};
  plan::MappedGraph mapped = plan::parallelize(model, digits, strategy.choices, strategy.schedule);
};

void BM_LowerGpt3(benchmark::State& state) {
  const Gpt3 gpt3;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        lower::lower(gpt3.mapped, gpt3.digits, gpt3.dgx.device.software, plan::Optimizer::kAdam));
  }
}

void BM_SimulateGpt3(benchmark::State& state) {
  const Gpt3 gpt3;
  const auto program =
      lower::lower(gpt3.mapped, gpt3.digits, gpt3.dgx.device.software, plan::Optimizer::kAdam);
  std::size_t spans = 0;
  for (auto _ : state) spans = predict::simulate(program, gpt3.dgx).timeline.size();
  state.counters["spans"] = static_cast<double>(spans);
}

void BM_HashGraph(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(graph::hash_graph(get_setting().model, graph::HashKind::kIdentity));
    benchmark::DoNotOptimize(graph::hash_graph(get_setting().model, graph::HashKind::kShape));
  }
  state.counters["nodes"] = static_cast<double>(get_setting().model.size());
}

void BM_PrintGraph(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(graph::to_text(get_setting().model));
}

void BM_ParseGraph(benchmark::State& state) {
  const auto text = graph::to_text(get_setting().model);
  for (auto _ : state) benchmark::DoNotOptimize(graph::parse_graph(text));
}

BENCHMARK(BM_Strategy)->ArgName("megatron")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Parallelize)->ArgName("megatron")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Lower)->ArgName("megatron")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Simulate)->ArgName("megatron")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_LowerGpt3)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_SimulateGpt3)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_HashGraph)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_PrintGraph)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_ParseGraph)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tandem

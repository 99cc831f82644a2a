// Graphs of 100,000 nodes, deep and wide: building them, hashing, printing, parsing, folding. Also
// builds each built-in network.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include "graph/fold.h"
#include "graph/hashes.h"
#include "graph/text.h"
#include "models/model.h"
#include "ops/registry.h"

namespace tandem {
namespace {

constexpr std::size_t kNodes = 100'000;

// Returns a chain of layers of three nodes: weight, linear, relu.
graph::Graph make_deep_mlp() {
  graph::GraphBuilder b("deep_mlp");
  auto x = b.input("x", {64, 256}, DType::kFp32);
  for (std::size_t layer = 1; 3 * layer < kNodes; ++layer) {
    const auto w = b.weight(fmt::format("w{}", layer), {256, 256}, DType::kFp32);
    x = b.add(ops::kLinear, {x, w}, fmt::format("linear{}", layer));
    x = b.add(ops::kRelu, {x}, fmt::format("relu{}", layer));
  }
  return b.finish({x});
}

// Returns equal branches from one input, of three nodes each, every one an output.
graph::Graph make_wide_mlp() {
  graph::GraphBuilder b("wide_mlp");
  const auto x = b.input("x", {64, 256}, DType::kFp32);
  std::vector<graph::NodeId> outputs;
  for (std::size_t branch = 1; 3 * branch < kNodes; ++branch) {
    const auto w = b.weight(fmt::format("w{}", branch), {256, 256}, DType::kFp32);
    const auto y = b.add(ops::kLinear, {x, w}, fmt::format("linear{}", branch));
    outputs.push_back(b.add(ops::kRelu, {y}, fmt::format("relu{}", branch)));
  }
  return b.finish(outputs);
}

graph::Graph make_graph(const benchmark::State& state) {
  return state.range(0) == 0 ? make_deep_mlp() : make_wide_mlp();
}

void report(benchmark::State& state, const graph::Graph& graph) {
  state.counters["nodes"] = static_cast<double>(graph.size());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) / 1e3;
}

void BM_BuildLargeGraph(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(make_graph(state));
  report(state, make_graph(state));
}

void BM_HashLargeGraph(benchmark::State& state) {
  const auto graph = make_graph(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(graph::hash_graph(graph, graph::HashKind::kIdentity));
    benchmark::DoNotOptimize(graph::hash_graph(graph, graph::HashKind::kShape));
  }
  report(state, graph);
}

void BM_PrintLargeGraph(benchmark::State& state) {
  const auto graph = make_graph(state);
  for (auto _ : state) benchmark::DoNotOptimize(graph::to_text(graph));
  report(state, graph);
}

void BM_ParseLargeGraph(benchmark::State& state) {
  const auto graph = make_graph(state);
  const auto text = graph::to_text(graph);
  for (auto _ : state) benchmark::DoNotOptimize(graph::parse_graph(text));
  report(state, graph);
}

void BM_FoldLargeGraph(benchmark::State& state) {
  const auto graph = make_graph(state);
  for (auto _ : state) benchmark::DoNotOptimize(graph::to_folded_text(graph));
  report(state, graph);
  state.counters["lines"] = static_cast<double>(graph::fold(graph).size());
}

// Measures all steps of the requirement together.
void BM_BuildHashPrintLargeGraph(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(graph::to_text(make_graph(state)));
  report(state, make_graph(state));
}

void BM_BuildModels(benchmark::State& state) {
  const auto* spec = models::all_models()[static_cast<std::size_t>(state.range(0))];
  const auto model = models::parse_model(spec->name);
  for (auto _ : state) {
    benchmark::DoNotOptimize(model.build(spec->train_batch, DType::kFp32));
  }
  state.SetLabel(spec->name);
}

BENCHMARK(BM_BuildModels)
    ->DenseRange(0, static_cast<int>(models::all_models().size()) - 1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_BuildHashPrintLargeGraph)
    ->ArgName("wide")
    ->Arg(0)
    ->Arg(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_BuildLargeGraph)->ArgName("wide")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_HashLargeGraph)->ArgName("wide")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_PrintLargeGraph)->ArgName("wide")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_FoldLargeGraph)->ArgName("wide")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ParseLargeGraph)->ArgName("wide")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tandem

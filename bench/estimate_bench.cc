// Estimates: one strategy from the model's name on, and a sweep of strategies for one network; and
// what the least event simulation of the same strategies costs
// (docs/internals/decisions/0047-estimates-stay-folded.md).
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include "lower/lower.h"
#include "plan/parallelize.h"
#include "predict/estimator.h"
#include "predict/simulate.h"
#include "strategies/grid.h"

namespace tandem {
namespace {

constexpr predict::Training kTraining{DType::kBf16, plan::Optimizer::kAdam};

void estimate_one(benchmark::State& state, const char* machine_name, const char* model_name,
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
  estimate_one(state, "dgx_a100:128", "gpt3_175b", "megatron:tp=8,pp=16,dp=8,micro=128", 2048);
}
void BM_EstimateLlama405B(benchmark::State& state) {
  estimate_one(state, "dgx_h100:2048", "llama3_405b", "megatron:tp=8,pp=2,dp=1024,sp,micro=2",
               2048);
}

struct Sweep {
  const char* model;
  const char* machine;
  std::int64_t devices;
  std::int64_t batch;
  std::vector<std::int64_t> ranks;  // of a pipeline
};

// Returns settings with every degree of tensor and pipeline parallelism, size of micro-batch,
// interleaving and recomputation.
std::vector<strategies::Setting> list_settings(const Sweep& sweep, std::int64_t layers) {
  std::vector<strategies::Setting> out;
  for (const std::int64_t tp : {1, 2, 4, 8}) {
    for (const auto pp : sweep.ranks) {
      const auto dp = sweep.devices / tp / pp;
      if (dp == 0 || sweep.batch % dp != 0) continue;
      for (const std::int64_t size : {1, 2, 4, 8}) {
        const auto micro = sweep.batch / dp / size;
        if (micro < pp || sweep.batch % (dp * size) != 0) continue;
        for (const std::int64_t interleave : {1, 2, 3, 4, 6}) {
          if (interleave > 1 && (pp == 1 || micro % pp != 0 || layers % (pp * interleave) != 0))
            continue;
          using strategies::Recompute;
          for (const auto recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
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

const std::vector<Sweep> kSweeps = {
    {"gpt3_175b", "dgx_a100:128", 1024, 2048, {1, 2, 4, 8, 16, 32}},
    {"llama3_8b", "dgx_h100:4", 32, 256, {1, 2, 4, 8}},
    {"llama3_70b", "dgx_h100:32", 256, 1024, {1, 2, 4, 8, 16}},
    {"llama3_405b", "dgx_h100:256", 2048, 2048, {1, 2, 4, 8, 16, 32}},
    {"bert_large", "dgx_a100:4", 32, 512, {1, 2, 4, 8}},
    {"mixtral_8x7b", "dgx_h100:8", 64, 512, {1, 2, 4, 8}},
};

std::int64_t count_layers(const models::ConfiguredModel& model) {
  return model.settings.size("layers");
}

void BM_Sweep(benchmark::State& state) {
  const auto& sweep = kSweeps[static_cast<std::size_t>(state.range(0))];
  state.SetLabel(fmt::format("{} on {}", sweep.model, sweep.machine));
  const auto machine = machine::load_machine(sweep.machine);
  const auto model = models::parse_model(sweep.model);
  const auto settings = list_settings(sweep, count_layers(model));
  std::int64_t estimated = 0;
  for (auto _ : state) {
    predict::Estimator estimator(model, machine, kTraining);
    for (const auto& s : settings) {
      estimated += estimator.estimate(s, sweep.batch).has_value() ? 1 : 0;
    }
  }
  state.SetItemsProcessed(estimated);
  state.counters["strategies"] = static_cast<double>(settings.size());
}

// A strategy on the network reduced to one layer per stage (two in one stage), with micro-batches
// that fill its pipeline once.
struct Cut {
  machine::Digits digits;
  plan::MappedGraph mapped;
};
std::optional<Cut> make_cut(const models::ConfiguredModel& model, const machine::Machine& machine,
                            strategies::Setting setting, std::int64_t batch) {
  auto few = model;
  const auto stages = setting.pp * setting.interleave;
  few.settings.set("layers", std::to_string(std::max<std::int64_t>(2, stages)));
  const auto micro =
      std::min(*setting.micro, setting.interleave > 1 ? 2 * setting.pp : setting.pp + 1);
  batch = batch / *setting.micro * micro;
  setting.micro = micro;
  const auto graph = few.build(batch, kTraining.dtype);
  const machine::Digits digits(machine);
  const strategies::Problem problem(graph, digits);
  const auto made = strategies::make_strategy(setting, problem);
  const auto* strategy = std::get_if<strategies::Strategy>(&made);
  if (strategy == nullptr) return std::nullopt;
  const machine::Digits with_time(machine, micro);
  return Cut{with_time, plan::parallelize(graph, with_time, strategy->choices, strategy->schedule)};
}

// Measures the least time of an event simulation whose cost does not grow with layers or
// micro-batches: it lowers and simulates one layer per stage. Without `with_lowering` only the
// simulation is measured.
void simulate_cuts(benchmark::State& state, bool with_lowering) {
  const auto& sweep = kSweeps[static_cast<std::size_t>(state.range(0))];
  state.SetLabel(fmt::format("{} on {}", sweep.model, sweep.machine));
  const auto machine = machine::load_machine(sweep.machine);
  const auto model = models::parse_model(sweep.model);
  const auto settings = list_settings(sweep, count_layers(model));
  constexpr std::size_t kSome = 24;  // of the settings, from all parts of the list
  std::vector<Cut> cuts;
  std::vector<lower::Program> programs;
  for (std::size_t i = 0; i < kSome; ++i) {
    auto one = make_cut(model, machine, settings[i * settings.size() / kSome], sweep.batch);
    if (!one) continue;
    programs.push_back(
        lower::lower(one->mapped, one->digits, machine.device.software, kTraining.optimizer));
    cuts.push_back(std::move(*one));
  }
  for (auto _ : state) {
    for (std::size_t i = 0; i < cuts.size(); ++i) {
      if (with_lowering) {
        programs[i] = lower::lower(cuts[i].mapped, cuts[i].digits, machine.device.software,
                                   kTraining.optimizer);
      }
      benchmark::DoNotOptimize(
          predict::simulate(programs[i], machine, predict::Classes::kDifferent).iteration);
    }
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * cuts.size()));
}
void BM_SimulateCut(benchmark::State& state) { simulate_cuts(state, false); }
void BM_LowerAndSimulateCut(benchmark::State& state) { simulate_cuts(state, true); }

BENCHMARK(BM_EstimateGpt3)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_EstimateLlama405B)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Sweep)->DenseRange(0, 5)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_SimulateCut)->DenseRange(0, 5)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_LowerAndSimulateCut)->DenseRange(0, 5)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tandem

#include "report/simulation_text.h"

#include <gtest/gtest.h>

#include "lower/lower.h"
#include "models/model.h"
#include "models/small_models_test_support.h"
#include "predict/breakdown_test_support.h"
#include "strategies/grid.h"

namespace tandem::report {
namespace {

struct Simulated {
  lower::Program program;
  predict::Simulation simulation;
};

Simulated simulate_strategy(const graph::Graph& model, const machine::Machine& machine,
                            const strategies::Strategy& strategy) {
  const machine::Digits digits(machine, strategy.schedule.micro_batches);
  Simulated out{lower::lower(plan::parallelize(model, digits, strategy.choices, strategy.schedule),
                             digits, machine.device.software, plan::Optimizer::kAdam),
                {}};
  out.simulation = predict::simulate(out.program, machine);
  return out;
}

// Covers every network under every strategy, including pipelines of all kinds.
TEST(SimulationText, AddsTimesAndMemory) {
  const auto machine = machine::load_machine("summit:2");
  const machine::Digits digits(machine);
  int exposed = 0;
  for (const auto& [name, small] : models::small_models()) {
    const auto model = models::parse_model(name + ":" + small.settings).build(96, DType::kFp32);
    const strategies::Problem problem(model, digits);
    auto all = strategies::make_strategies(strategies::list_baseline_settings(problem), problem);
    if (name == "gpt2") {
      for (const char* text :
           {"megatron:tp=1,pp=2,micro=4", "megatron:tp=2,pp=2,schedule=gpipe",
            "megatron:tp=1,pp=2,stale,micro=8", "dp:recompute=full", "fsdp:micro=2"}) {
        for (auto& s :
             strategies::make_named_strategies(text, model, digits, plan::Semantics::kDelayed1)) {
          all.push_back(std::move(s));
        }
      }
    }
    for (const auto& strategy : all) {
      SCOPED_TRACE(name + " " + strategy.name);
      const auto [program, s] = simulate_strategy(model, machine, strategy);
      predict::expect_adds_up(predict::break_down(program, s), s);
      exposed += s.exposed_comm > Seconds{} ? 1 : 0;
      const auto peak = find_peak(program, s.group_memory[0]);
      const auto json = details_json(program, s, machine, peak);
      double bytes = 0;
      for (const char* part : {"inputs_bytes", "weights_bytes", "optimizer_state_bytes",
                               "gathered_weights_bytes", "activations_bytes", "gradients_bytes"}) {
        bytes += json.at("memory_at_peak").at(part).get<double>();
      }
      EXPECT_NEAR(bytes, s.memory.value, 5);
      EXPECT_FALSE(peak.when.empty());
      double exposed_sum = 0;
      for (const auto& [kind, times] : json.at("breakdown").items()) {
        if (kind == "compute" || kind == "embedding") continue;
        exposed_sum += times.at("exposed_s").get<double>();
      }
      EXPECT_NEAR(exposed_sum, s.exposed_comm.value, 1e-9 * s.iteration.value);
    }
  }
  EXPECT_GT(exposed, 50);
}

TEST(SimulationText, NamesTheBottleneck) {
  predict::Simulation s;
  s.iteration = Seconds{10};
  s.compute = Seconds{3};
  s.bubble = Seconds{1};
  const auto machine = machine::load_machine("dgx_a100:2");
  const machine::Digits digits(machine);
  const std::vector<predict::Share> shares = {
      {"compute", 0, 5, {}, Seconds{3}, Seconds{3}},
      {"all_reduce", 0b0001, 2, Bytes{8}, Seconds{7}, Seconds{5.5}},
      {"all_gather", 0b1110, 2, Bytes{8}, Seconds{2}, Seconds{0.43}},
      {"broadcast", 0b1110, 2, Bytes{8}, Seconds{2}, Seconds{0.07}},
  };
  EXPECT_EQ(bound_text(shares, s, machine, digits),
            "exposed all_reduce over node 2 (55 % of the step time), compute (30 %), stall (10 %), "
            "exposed all_gather over gpu 8 (4 %)");
  EXPECT_EQ(time_table(shares, s),
            "              serialized  overlapped  exposed\n"
            "  compute            3 s\n"
            "  all_reduce         7 s       1.5 s    5.5 s\n"
            "  all_gather         2 s      1.57 s   430 ms\n"
            "  send_recv          2 s      1.93 s    70 ms\n"
            "  stall                                   1 s\n");
}

}  // namespace
}  // namespace tandem::report

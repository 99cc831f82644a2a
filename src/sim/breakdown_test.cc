// Where time goes: a timeline written by hand, and the sums on random strategies of every network.
#include "sim/breakdown.h"

#include <gtest/gtest.h>

#include <map>

#include "lower/lower.h"
#include "models/model.h"
#include "models/small_models_test_support.h"
#include "strategies/grid.h"

namespace tandem::sim {
namespace {

using lower::Program;

Program lowered(const graph::Graph& model, const machine::Machine& machine,
                const std::string& strategy) {
  const machine::Digits plain(machine);
  const auto s = strategies::named_strategies(strategy, model, plain)[0];
  const machine::Digits digits(machine, s.schedule.micro_batches);
  return lower::lower(plan::parallelize(model, digits, s.choices, s.schedule), digits,
                      plan::Optimizer::kSgd);
}

std::uint32_t task_of_kind(const Program& program, std::string_view kind) {
  for (std::uint32_t t = 0; t < program.tasks.size(); ++t) {
    if (kind_of(program, program.tasks[t]) == kind) return t;
  }
  ADD_FAILURE() << "no task of kind " << kind;
  return 0;
}

TEST(Breakdown, SharesWhatIsExposedTogether) {
  const auto model =
      models::parse_model("mlp:layers=2,hidden=8,inputs=8,outputs=8").build(8, DType::kFp32);
  const auto machine = machine::load_machine("local:2");
  const auto program = lowered(model, machine, "fsdp");
  const auto compute = task_of_kind(program, "compute");
  const auto gather = task_of_kind(program, "all_gather");
  const auto scatter = task_of_kind(program, "reduce_scatter");
  //            0  1  2  3  4  5  6  7  8  9
  // compute    [-----------]
  // gather           [-----------]
  // scatter                   [--------]       idle from 8 to 9
  Simulation s;
  s.iteration = Seconds{9};
  const auto span = [&](std::uint32_t task, double start, double end, std::uint32_t of = 0) {
    s.timeline.push_back({task, 0, of, task == compute ? 0U : 1U, Seconds{start}, Seconds{end}, 0});
  };
  span(compute, 0, 4);
  span(gather, 2, 6);
  span(scatter, 5, 8);
  span(scatter, 0, 9, 1);  // of another class
  const auto shares = break_down(program, s);
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_EQ(shares[0].kind, "compute");
  EXPECT_EQ(shares[0].serialized, Seconds{4});
  EXPECT_EQ(shares[0].exposed, Seconds{2});
  EXPECT_EQ(shares[1].kind, "all_gather");
  EXPECT_EQ(shares[1].serialized, Seconds{4});
  EXPECT_EQ(shares[1].exposed, Seconds{1 + 0.5});
  EXPECT_EQ(shares[1].overlapped(), Seconds{2.5});
  EXPECT_EQ(shares[1].digits, program.tasks[gather].step.digits);
  EXPECT_EQ(shares[1].bytes, moved_bytes(program, program.tasks[gather]));
  EXPECT_EQ(shares[2].kind, "reduce_scatter");
  EXPECT_EQ(shares[2].exposed, Seconds{0.5 + 2});
}

TEST(Breakdown, WhatRunsIntoTheNextIterationHasRunOnFromTheLast) {
  const auto model =
      models::parse_model("mlp:layers=2,hidden=8,inputs=8,outputs=8").build(8, DType::kFp32);
  const auto program = lowered(model, machine::load_machine("local:2"), "dp");
  Simulation s;
  s.iteration = Seconds{10};
  s.timeline = {{task_of_kind(program, "compute"), 0, 0, 0, Seconds{1}, Seconds{9}, 0},
                {task_of_kind(program, "all_reduce"), 0, 0, 1, Seconds{8}, Seconds{12}, 0}};
  const auto shares = break_down(program, s);
  EXPECT_EQ(shares[1].serialized, Seconds{4});
  EXPECT_EQ(shares[1].exposed, Seconds{2});  // from 9 to 10 and from 0 to 1
}

// The parts are the whole, whatever the strategy: kinds add up to what the simulator has summed in
// its own way.
TEST(Breakdown, AddsUp) {
  const auto machine = machine::load_machine("summit:2");
  const machine::Digits digits(machine);
  int exposed = 0;
  for (const auto& [name, small] : models::small_models()) {
    const auto model = models::parse_model(name + ":" + small.settings).build(96, DType::kFp32);
    const strategies::Problem problem(model, digits);
    auto all = strategies::make_strategies(strategies::settings_for(problem), problem);
    if (name == "gpt2") {
      for (const char* text : {"megatron:tp=1,pp=2,micro=4", "megatron:tp=2,pp=2,schedule=gpipe",
                               "megatron:tp=1,pp=2,stale,micro=8"}) {
        for (auto& s :
             strategies::named_strategies(text, model, digits, plan::Semantics::kDelayed1)) {
          all.push_back(std::move(s));
        }
      }
    }
    for (const auto& strategy : all) {
      SCOPED_TRACE(name + " " + strategy.name);
      const machine::Digits own(machine, strategy.schedule.micro_batches);
      const auto program =
          lower::lower(plan::parallelize(model, own, strategy.choices, strategy.schedule), own,
                       plan::Optimizer::kSgd);
      const auto s = simulate(program, machine);
      std::map<std::string, Seconds> serialized;
      Seconds compute;
      Seconds communication;
      for (const auto& share : break_down(program, s)) {
        serialized[share.kind] += share.serialized;
        (share.is_compute() ? compute : communication) +=
            share.is_compute() ? share.serialized : share.exposed;
        EXPECT_GE(share.exposed.value, 0);
        EXPECT_LE(share.exposed.value, share.serialized.value * (1 + 1e-9));
      }
      const auto near = 1e-9 * s.iteration.value;
      EXPECT_NEAR(communication.value, s.exposed_comm.value, near);
      EXPECT_NEAR((compute + communication + s.bubble).value, s.iteration.value, near);
      EXPECT_EQ(serialized.size(), s.serialized.size());
      for (const auto& [kind, time] : serialized) {
        EXPECT_NEAR(time.value, s.serialized.at(kind).value, near) << kind;
      }
      exposed += s.exposed_comm > Seconds{} ? 1 : 0;
    }
  }
  EXPECT_GT(exposed, 50);
}

}  // namespace
}  // namespace tandem::sim

#include "search/bounds.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "strategies/grid.h"
#include "unity/unity.h"

namespace tandem::search {
namespace {

TEST(Bounds, ReportTheLargestThatHolds) {
  const std::vector<Bound> bounds = {{Seconds{1}, "a"}, {Seconds{3}, "b"}, {Seconds{2}, "c"}};
  EXPECT_EQ(find_largest_bound(bounds, Seconds{4})->scope, "b");
  EXPECT_EQ(find_largest_bound(bounds, Seconds{3})->scope, "b");
  EXPECT_EQ(find_largest_bound(bounds, Seconds{2.5})->scope, "c");
  EXPECT_FALSE(find_largest_bound(bounds, Seconds{0.5}).has_value());
}

// Other tests rely on this: every test program and every script that runs commands sets the
// variable.
TEST(Bounds, AreCheckedInTests) {
  const FailedChecksThrow guard;
  EXPECT_NO_THROW(check_bound(Seconds{2}, Seconds{2}, "plan"));
  EXPECT_THROW(check_bound(Seconds{1.9}, Seconds{2}, "plan"), CheckFailed);
}

// Returns nodes of fast devices, and of devices that are half as fast in everything.
machine::Machine two_kinds() {
  auto out = machine::load_machine("dgx_a100:2");
  auto slow = out.device;
  for (auto& [dtype, peak] : slow.peak) peak = 0.5 * peak;
  slow.bandwidth = 0.5 * slow.bandwidth;
  out.groups = {{"fast", out.device, 1}, {"slow", slow, 1}};
  out.device = machine::make_weakest_device(out.groups);
  return out;
}

TEST(Bounds, HoldForEveryDivisionOfCompute) {
  const auto model = models::parse_model("gpt2:layers=4,hidden=256,heads=4,seq=128,vocab=512")
                         .build(32, DType::kFp32);
  for (const auto& machine : {machine::load_machine("dgx_a100:2"), two_kinds()}) {
    const auto bound = bound_compute_time(model, machine, {});
    EXPECT_GT(bound.value, 0);
    for (const auto* text :
         {"dp", "fsdp", "dp:micro=2", "megatron:tp=8,dp=2", "megatron:tp=2,dp=4,pp=2,micro=8",
          "megatron:tp=1,dp=4,pp=4,micro=4,recompute=full", "madmax:transformer=tp/ddp"}) {
      SCOPED_TRACE(text);
      const auto s = strategies::make_named_strategies(text, model, machine::Digits(machine))[0];
      const auto costed = cost_choices(model, machine, s.name, s.choices, s.schedule,
                                       plan::Optimizer::kSgd, compute_memory_limits(machine, {}));
      EXPECT_GE(costed.simulation.iteration, bound);
    }
  }
}

// On one device the bound omits only updates and exposed operations.
TEST(Bounds, AreTightOnOneDevice) {
  const auto model = models::parse_model("gpt2:layers=4").build(8, DType::kFp32);
  const auto machine = machine::load_machine("dgx_a100:1,use=1/1");
  const auto result = search(model, machine, {});
  ASSERT_TRUE(result.best.has_value());
  const auto bound = bound_compute_time(model, machine, {});
  EXPECT_LE(bound, result.best->simulation.iteration);
  EXPECT_GE(bound.value, 0.9 * result.best->simulation.iteration.value);
}

// Covers every kind of winner: layouts, a grid strategy, a pipeline with layouts of its own,
// delayed updates, Unity's search.
TEST(Bounds, ExistForEveryPlan) {
  const auto expect_bound = [](const Result& result) {
    ASSERT_TRUE(result.best.has_value());
    ASSERT_TRUE(result.lower_bound.has_value());
    EXPECT_FALSE(result.bound_scope.empty());
    EXPECT_GT(result.lower_bound->value, 0);
    EXPECT_LE(result.lower_bound->value, 1.000001 * result.best->simulation.iteration.value);
  };
  for (const auto& [text, machine_text, batch] :
       {std::tuple{"bert_large:layers=3", "summit:4", 96},
        std::tuple{"dlrm:tables=4", "summit:2", 4096},
        std::tuple{"gpt2:layers=8", "dgx_a100:3", 24}, std::tuple{"mlp:layers=4", "local:3", 5}}) {
    SCOPED_TRACE(text);
    const auto network = models::parse_model(text);
    Options options;
    options.optimizer = plan::Optimizer::kAdam;
    options.network = {&network, batch, DType::kFp32};
    const auto model = network.build(batch, DType::kFp32);
    const auto machine = machine::load_machine(machine_text);
    expect_bound(search(model, machine, options));
    options.until.candidates = 3;
    expect_bound(search(model, machine, options));
  }
  const auto model =
      models::parse_model("mlp:layers=4,hidden=64,inputs=64,outputs=64").build(64, DType::kFp32);
  expect_bound(search(model, two_kinds(), {}));
  Options stale;
  stale.semantics = plan::Semantics::kDelayed1;
  expect_bound(search(model, machine::load_machine("dgx_v100:1"), stale));
  expect_bound(unity::search(model, machine::load_machine("summit:1"), {}, {}));
}

// If a plain strategy is best, the bound is the grid's proved bound, not that of compute. Stages
// smaller than a layer have rough estimates if they recompute, and a looser bound.
TEST(Bounds, ComeFromTheGridForAPlainPlan) {
  struct Question {
    int layers;
    Bytes memory;
    double least;  // fraction of the plan's time
  };
  for (const auto& [layers, memory, least] :
       {Question{8, Bytes{100e6}, 0.8}, Question{4, Bytes{50e6}, 0.9}}) {
    const auto network = models::parse_model(
        fmt::format("gpt2:layers={},hidden=256,heads=4,seq=256,vocab=1024", layers));
    Options options;
    options.optimizer = plan::Optimizer::kAdam;
    options.memory = memory;
    options.network = {&network, 64, DType::kFp32};
    const auto result =
        search(network.build(64, DType::kFp32), machine::load_machine("dgx_a100:1"), options);
    ASSERT_TRUE(result.best && result.lower_bound);
    EXPECT_GE(result.lower_bound->value, least * result.best->simulation.iteration.value)
        << result.best->name << ", " << result.bound_scope;
  }
}

}  // namespace
}  // namespace tandem::search

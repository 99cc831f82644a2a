#include "search/neighbours/rank_settings.h"

#include <gtest/gtest.h>

#include <array>

#include "lower/training_step_test_support.h"
#include "models/model.h"
#include "search/estimates.h"
#include "search/neighbours/partial_saving.h"
#include "strategies/grid.h"

namespace tandem::search {
namespace {

// A pipeline of four stages on eight devices, with the known results of its settings.
class RankSettings : public testing::Test {
 protected:
  static constexpr std::int64_t kBatch = 64;

  // Limits the memory between that of no recomputation and that of full recomputation.
  void SetUp() override {
    options_.network = KnownNetwork{&parsed_, kBatch, DType::kFp32};
    const auto none = simulate("megatron:tp=1,dp=2,pp=4,micro=16");
    const auto full = simulate("megatron:tp=1,dp=2,pp=4,micro=16,recompute=full");
    uniform_ = full.time();
    unlimited_ = none.time();
    options_.memory = 0.3 * none.simulation.memory + 0.7 * full.simulation.memory;
  }

  Evaluated simulate(const char* text) {
    const strategies::Problem problem(model_, digits_);
    auto made = make_strategies({strategies::parse_setting(text)}, problem);
    CandidatePool pool(model_, machine_, options_);
    return pool.enter({make_candidate(std::move(made.at(0)))})[0].value();
  }

  // Enters the mixes around one pipeline.
  void mix(CandidatePool& pool, const char* from) {
    const strategies::Problem problem(model_, digits_);
    Estimates estimates({.values = {},
                         .problem = &problem,
                         .machine = &machine_,
                         .batch = kBatch,
                         .optimizer = options_.optimizer,
                         .precision = [this](auto) { return options_.precision; },
                         .limits = pool.result().limits,
                         .network = &parsed_,
                         .dtype = DType::kFp32});
    const Try estimate = [&](const auto& settings) { return estimate_all(estimates, settings); };
    mix_settings_by_rank(pool, problem, estimate({strategies::parse_setting(from)}), estimate,
                         [](const auto&) { return true; });
  }

  models::ConfiguredModel parsed_ =
      models::parse_model("gpt2:layers=16,hidden=256,heads=4,ffn=1024,vocab=512,seq=128");
  graph::Graph model_ = parsed_.build(kBatch, DType::kFp32);
  machine::Machine machine_ = machine::load_machine("dgx_a100:1");
  machine::Digits digits_{machine_};
  Options options_;
  Seconds uniform_;    // step time if all ranks recompute all layers
  Seconds unlimited_;  // step time if no rank recomputes
};

constexpr const char* kFull = "megatron:tp=1,dp=2,pp=4,micro=16,recompute=full";

TEST_F(RankSettings, RecomputeLessOnLaterRanks) {
  CandidatePool pool(model_, machine_, options_);
  mix(pool, kFull);
  const auto& best = pool.result().best;
  ASSERT_TRUE(best.has_value());
  EXPECT_LE(best->simulation.memory, *options_.memory);
  EXPECT_LT(best->time(), uniform_ - 0.3 * (uniform_ - unlimited_));
  const auto& candidate = pool.best_candidate().value();
  ASSERT_EQ(candidate.schedule.stages, 4);
  std::array<int, 4> recomputed{};
  for (auto id : model_.ids()) {
    if (model_.node(id).op.role() != ops::Role::kCompute) continue;
    const auto& choice = candidate.choices[id.index()];
    recomputed.at(choice.stage) += choice.recompute ? 1 : 0;
  }
  EXPECT_GT(recomputed[0], recomputed[3]);
}

// Settings of ranks may differ in how devices share a layer. Then tensors are resharded between
// stages, and the step still equals that of one device.
TEST(RankSettingsSemantics, TrainLikeOneDeviceWithDifferentGroups) {
  const auto model = models::parse_model("gpt2:layers=2,hidden=8,heads=2,ffn=8,vocab=8,seq=4")
                         .build(4, DType::kFp32);
  const auto machine = machine::load_machine("dgx_a100:1");
  const machine::Digits space(machine);
  const strategies::Problem problem(model, space);
  const char* const settings[] = {"megatron:tp=2,dp=2,sp,zero=1,pp=2,micro=2",
                                  "megatron:tp=1,dp=2,cp=2,zero=1,pp=2,micro=2",
                                  "megatron:tp=2,dp=2,zero=1,pp=2,micro=2,recompute=full",
                                  "megatron:tp=2,dp=1,cp=2,zero=1,pp=2,micro=2"};
  for (const auto* first : settings) {
    for (const auto* second : settings) {
      SCOPED_TRACE(std::string(first) + " " + second);
      const auto made = make_strategies(
          {strategies::parse_setting(first), strategies::parse_setting(second)}, problem);
      ASSERT_EQ(made.size(), 2U);
      const std::vector<StageMix> mixes = {{&made[0].choices, &made[0].choices, 1},
                                           {&made[1].choices, &made[1].choices, 1}};
      const machine::Digits digits(machine, 2);
      const auto mapped =
          plan::parallelize(model, digits, mix_by_stage(model, mixes), made[0].schedule);
      plan::check_mapped(mapped, digits);
      const auto program =
          lower::lower(mapped, digits, machine.device.software, plan::Optimizer::kSgd);
      lower::expect_same_step(model, program, 1);
    }
  }
}

TEST_F(RankSettings, RecomputeAsLittleAsNecessaryWithoutPipelines) {
  const auto none = simulate("dp:micro=8");
  const auto full = simulate("dp:micro=8,recompute=full");
  options_.memory = (none.simulation.memory + full.simulation.memory) / 2;
  CandidatePool pool(model_, machine_, options_);
  mix(pool, "dp:micro=8,recompute=full");
  ASSERT_TRUE(pool.result().best.has_value());
  const auto& best = pool.result().best->simulation;
  EXPECT_GT(best.memory, 0.9 * *options_.memory);
  EXPECT_LT(best.iteration, full.time());
}

// Ranks of one or two layers recompute whole operators more or less. The search still finds mixes
// that fit.
TEST_F(RankSettings, AreNeverSlowerWithMoreMemoryAndFewLayersPerRank) {
  parsed_ = models::parse_model("gpt2:layers=10,hidden=128,heads=8,ffn=512,vocab=512,seq=512");
  model_ = parsed_.build(kBatch, DType::kFp32);
  options_.memory.reset();
  const auto none = simulate("megatron:tp=1,dp=1,pp=8,micro=16").simulation.memory;
  const auto selective = simulate("megatron:tp=1,dp=1,pp=8,micro=16,recompute=selective");
  const auto least = selective.simulation.memory;
  auto best = selective.time();
  for (int tenths = 1; tenths < 10; ++tenths) {
    options_.memory = least + 0.1 * tenths * (none - least);
    CandidatePool pool(model_, machine_, options_);
    mix(pool, "megatron:tp=1,dp=1,pp=8,micro=16,recompute=selective");
    ASSERT_TRUE(pool.result().best) << tenths;
    const auto time = pool.result().best->time();
    EXPECT_LE(time / best, 1.01) << tenths;
    best = std::min(best, time);
  }
}

}  // namespace
}  // namespace tandem::search

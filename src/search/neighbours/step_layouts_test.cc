#include "search/neighbours/step_layouts.h"

#include <gtest/gtest.h>

#include "check/check.h"
#include "models/model.h"
#include "strategies/grid.h"

namespace tandem::search {
namespace {

// Tensor parallelism within each stage is worse here than the layouts that the network finds.
TEST(StepLayouts, PlanTheModelInTheStagesOfTheStrategy) {
  const auto model =
      models::parse_model("bert_large:layers=4,hidden=16,heads=4,ffn=32,seq=4,vocab=64");
  const std::int64_t batch = 32;
  const auto graph = model.build(batch, DType::kFp32);
  const auto machine = machine::load_machine("dgx_a100:1");
  const machine::Digits digits(machine);
  const strategies::Problem problem(graph, digits);
  predict::CostModel costs(machine, digits, plan::Optimizer::kSgd);
  Options options;
  options.network = {&model, batch, DType::kFp32};
  for (const std::string text : {"megatron:tp=4,pp=2,micro=4", "megatron:tp=4,pp=2,micro=8,zero=1",
                                 "megatron:tp=4,pp=2,micro=4,interleave=2,recompute=full"}) {
    SCOPED_TRACE(text);
    const auto setting = complete(strategies::parse_setting(text), problem)[0];
    std::size_t tables = 0;
    const auto candidates = lay_out_step(setting, problem, costs, options, tables);
    ASSERT_FALSE(candidates.empty());
    EXPECT_GT(tables, 0U);
    for (const auto& candidate : candidates) {
      const auto& schedule = candidate.schedule;
      EXPECT_EQ(schedule.micro_batches, setting.micro);
      EXPECT_EQ(schedule.stages, 2 * setting.interleave);
      const machine::Digits cut(machine, schedule.micro_batches);
      const plan::Plan plan{.model = model.text,
                            .machine = machine.name,
                            .strategy = candidate.name,
                            .batch = batch,
                            .mapped = plan::parallelize(graph, cut, candidate.choices, schedule),
                            .iteration = {},
                            .memory = {}};
      check_mapped(plan.mapped, cut);
      const auto report = check::check_plan(plan, cut, graph);
      EXPECT_TRUE(report.ok) << report.where << ": " << report.message;
    }
  }
}

// Networks of few layers, and small ones of unequal layers, are priced whole.
TEST(StepLayouts, FavorExpertsForAnyNumberOfLayers) {
  const std::int64_t batch = 32;
  const auto machine = machine::load_machine("dgx_a100:4");
  const machine::Digits digits(machine);
  for (const std::string layers : {"1", "2", "3", "4", "8"}) {
    SCOPED_TRACE(layers);
    const auto model = models::parse_model("mixtral_8x7b:experts=8,seq=2048,layers=" + layers);
    const auto graph = model.build(batch, DType::kBf16);
    const strategies::Problem problem(graph, digits);
    predict::CostModel costs(machine, digits, plan::Optimizer::kAdam);
    Options options;
    options.network = {&model, batch, DType::kBf16};
    const auto setting =
        complete(strategies::parse_setting("megatron:tp=8,dp=4,zero=1"), problem)[0];
    const auto ratio = compute_layout_cost_ratio(setting, problem, costs, options);
    ASSERT_TRUE(ratio.has_value());
    EXPECT_LT(*ratio, 0.8);
  }
}

// The first and the last stage share the embedding table, which also computes the logits, and send
// each other the table and its gradient. If it is sharded, there is less to send.
TEST(StepLayouts, ShardTensorsSentBetweenStages) {
  const auto model = models::parse_model("bert_large");
  const std::int64_t batch = 384;
  const auto graph = model.build(batch, DType::kFp32);
  const auto machine = machine::load_machine("summit:16,software=serial");
  const machine::Digits digits(machine);
  const strategies::Problem problem(graph, digits);
  predict::CostModel costs(machine, digits, plan::Optimizer::kSgd);
  Options options;
  options.network = {&model, batch, DType::kFp32};
  const auto text = "megatron:tp=1,dp=48,pp=2,interleave=4,micro=4";
  const auto setting = complete(strategies::parse_setting(text), problem)[0];
  std::size_t tables = 0;
  const auto candidates = lay_out_step(setting, problem, costs, options, tables);
  ASSERT_FALSE(candidates.empty());
  const auto ids = graph.ids();
  const auto table =
      std::ranges::find(ids, "w_tokens", [&](graph::NodeId id) { return graph.node(id).name; });
  ASSERT_NE(table, ids.end());
  for (const auto& candidate : candidates) {
    const auto& sizes = graph.node(*table).type.shape.sizes;
    const auto& layout = candidate.choices[(*table).index()].source;
    const machine::Digits cut(machine, candidate.schedule.micro_batches);
    const auto stored = machine::compute_parallel_shape(layout, sizes, cut);
    ASSERT_TRUE(stored);
    EXPECT_LT(stored->shard_shape().count(), sizes.count()) << candidate.name;
  }
}

// The search retains a limited number of states per operator. One more dimension changes them, but
// the layouts found with fewer dimensions still compete.
TEST(StepLayouts, IncludeLayoutsOfFewerDimensions) {
  const auto model = models::parse_model("bert_large:layers=4");
  const std::int64_t batch = 96;
  const auto graph = model.build(batch, DType::kFp32);
  const auto machine = machine::load_machine("summit:4,software=serial");
  const machine::Digits digits(machine);
  const strategies::Problem problem(graph, digits);
  predict::CostModel costs(machine, digits, plan::Optimizer::kAdam);
  const auto setting =
      complete(strategies::parse_setting("megatron:tp=1,dp=12,pp=2,micro=4"), problem)[0];
  const auto find_layouts = [&](bool along_the_sequence) {
    Options options;
    options.network = {&model, batch, DType::kFp32};
    options.dims.sequence = along_the_sequence;
    std::size_t tables = 0;
    return lay_out_step(setting, problem, costs, options, tables);
  };
  const auto more = find_layouts(true);
  for (const auto& candidate : find_layouts(false)) {
    const bool is_there = std::ranges::any_of(
        more, [&](const auto& other) { return other.choices == candidate.choices; });
    EXPECT_TRUE(is_there) << candidate.name;
  }
}

}  // namespace
}  // namespace tandem::search

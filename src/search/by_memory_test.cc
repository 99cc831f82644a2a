#include "search/by_memory.h"

#include <gtest/gtest.h>

#include "machine/machine.h"
#include "models/model.h"
#include "strategies/grid.h"

namespace tandem::search {
namespace {

struct Scarce {
  const char* model;
  std::int64_t batch;
  const char* machine;
  const char* strategy;  // that needs much less than all without a pipeline
};

// Pipelines of few layers, and all of what cannot be folded, have no estimate.
const std::vector<Scarce> kScarce = {
    {"mlp:layers=4", 96, "summit:1", "megatron:tp=2,pp=3,micro=24"},
    {"bert_large:layers=4", 16, "dgx_v100:1", "megatron:tp=4,sp,pp=2,micro=16,recompute=full"}};

Bytes needed_by(const Scarce& c, const graph::Graph& model, const machine::Machine& machine) {
  const auto s = strategies::named_strategies(c.strategy, model, machine::Digits(machine)).at(0);
  return cost_choices(model, machine, s.name, s.choices, s.schedule, plan::Optimizer::kSgd,
                      memory_limits(machine, {}))
      .simulation.memory;
}

TEST(ByMemory, FindsThePipelineThatFits) {
  for (const auto& c : kScarce) {
    SCOPED_TRACE(c.model);
    const auto known = models::parse_model(c.model);
    const auto model = known.build(c.batch, DType::kFp32);
    const auto machine = machine::load_machine(c.machine);
    Options options;
    options.memory = needed_by(c, model, machine);
    for (const bool is_known : {true, false}) {
      if (is_known) options.network = {&known, c.batch, DType::kFp32};
      if (!is_known) options.network.reset();
      const auto result = search(model, machine, options);
      ASSERT_TRUE(result.best.has_value()) << is_known;
      EXPECT_GT(result.best->mapped.schedule.stages, 1) << is_known;
      options.until.first_fit = true;
      EXPECT_TRUE(search(model, machine, options).best.has_value()) << is_known;
      options.until.first_fit = false;
      options.dims.pipeline = false;
      const auto without = search(model, machine, options);
      if (without.best) {
        EXPECT_EQ(without.best->mapped.schedule.stages, 1) << is_known;
      }
      options.dims.pipeline = true;
    }
  }
}

// The rough needs are near enough to tell which to simulate first.
TEST(ByMemory, RanksRoughlyAsSimulated) {
  const auto model = models::parse_model("bert_large:layers=4").build(24, DType::kFp32);
  const auto machine = machine::load_machine("summit:1");
  const machine::Digits digits(machine);
  const strategies::Problem problem(model, digits);
  const Options options;
  const Contest contest(model, machine, options);
  for (const auto* text : {"dp", "fsdp", "megatron:tp=6,dp=1", "megatron:tp=2,pp=3,micro=24",
                           "megatron:tp=2,pp=3,micro=6", "dp:micro=4,recompute=full"}) {
    const auto s = strategies::named_strategies(text, model, digits).at(0);
    const auto simulated = cost_choices(model, machine, s.name, s.choices, s.schedule,
                                        plan::Optimizer::kSgd, memory_limits(machine, {}))
                               .simulation.memory;
    const auto rough = roughly_needed(s, problem, contest);
    EXPECT_LT(rough, 1.6 * simulated) << text;
    EXPECT_GT(rough, 0.4 * simulated) << text;
  }
}

}  // namespace
}  // namespace tandem::search

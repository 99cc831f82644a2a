#include "search/fitting_setting.h"

#include <gtest/gtest.h>

#include "machine/machine.h"
#include "models/model.h"
#include "strategies/grid.h"

namespace tandem::search {
namespace {

// A network and a machine.
struct OnMachine {
  models::ConfiguredModel model;
  machine::Machine machine;
  std::int64_t batch;
  graph::Graph graph = model.build(batch, DType::kFp32);
  machine::Digits digits{machine};
  strategies::Problem problem{graph, digits};

  OnMachine(const char* network, const char* on, std::int64_t n)
      : model(models::parse_model(network)), machine(machine::load_machine(on)), batch(n) {}

  [[nodiscard]] Case limited_to(Bytes memory) const {
    return {.values = {},
            .problem = &problem,
            .machine = &machine,
            .batch = batch,
            .optimizer = plan::Optimizer::kAdam,
            .limits = {memory},
            .network = &model};
  }

  [[nodiscard]] strategies::Setting setting(const char* text) const {
    return complete(strategies::parse_setting(text), problem).front();
  }
};

const char* const kNetwork = "gpt2:layers=12,hidden=512,heads=8,ffn=2048,seq=256,vocab=1024";

TEST(FittingSetting, FitsInSimulation) {
  const OnMachine c(kNetwork, "dgx_a100:1", 64);
  for (const char* text : {"dp", "fsdp", "deepspeed:zero=1", "megatron:tp=4,dp=2",
                           "megatron:tp=2,pp=2,dp=2,micro=8"}) {
    SCOPED_TRACE(text);
    const auto setting = c.setting(text);
    const auto as_it_is = std::get<Evaluated>(evaluate(c.limited_to(Bytes{1e15}), setting));
    for (const double part : {0.9, 0.7}) {
      const auto on = c.limited_to(part * as_it_is.simulation.memory);
      Estimates estimates(on);
      const auto found = find_fitting_setting(estimates, setting, c.batch);
      ASSERT_TRUE(found.has_value()) << part;
      const auto simulated = std::get<Evaluated>(evaluate(on, c.setting(found->name.c_str())));
      EXPECT_LE(simulated.simulation.memory, 1.01 * on.limits[0]) << part;
      EXPECT_NEAR(simulated.simulation.iteration.value, found->simulation.iteration.value,
                  0.01 * simulated.simulation.iteration.value)
          << found->name;
    }
  }
}

TEST(FittingSetting, ChangesAsLittleAsNecessary) {
  const OnMachine c(kNetwork, "dgx_a100:1", 64);
  const auto dp = c.setting("dp");
  const auto needs = std::get<Evaluated>(evaluate(c.limited_to(Bytes{1e15}), dp)).simulation.memory;
  for (const double part : {0.9, 1.1}) {
    Estimates estimates(c.limited_to(part * needs));
    EXPECT_EQ(find_fitting_setting(estimates, dp, c.batch)->name, "dp:recompute=selective") << part;
  }
}

TEST(FittingSetting, IsEmptyIfWeightsDoNotFit) {
  const OnMachine c(kNetwork, "dgx_a100:1", 64);
  const auto on = c.limited_to(Bytes{1e6});
  Estimates estimates(on);
  EXPECT_FALSE(find_fitting_setting(estimates, c.setting("dp"), c.batch).has_value());
}

TEST(FittingSetting, IsEmptyWithoutEstimates) {
  const OnMachine c("mlp:layers=2", "dgx_a100:1", 64);
  const auto on = c.limited_to(Bytes{1e15});
  Estimates estimates(on);
  EXPECT_FALSE(find_fitting_setting(estimates, c.setting("dp"), c.batch).has_value());
}

}  // namespace
}  // namespace tandem::search

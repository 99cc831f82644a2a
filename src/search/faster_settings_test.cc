#include "search/faster_settings.h"

#include <gtest/gtest.h>

#include "models/model.h"
#include "strategies/grid.h"

namespace tandem::search {
namespace {

TEST(FasterSettings, AreFasterAndFitInSimulation) {
  const auto model =
      models::parse_model("gpt2:layers=12,hidden=512,heads=8,ffn=2048,seq=256,vocab=1024");
  const auto machine = machine::load_machine("dgx_a100:1");
  constexpr std::int64_t kBatch = 64;
  const auto graph = model.build(kBatch, DType::kFp32);
  const machine::Digits digits(machine);
  const strategies::Problem problem(graph, digits);
  const auto limited_to = [&](Bytes memory) {
    return Case{.values = {},
                .problem = &problem,
                .machine = &machine,
                .batch = kBatch,
                .optimizer = plan::Optimizer::kAdam,
                .limits = {memory},
                .network = &model};
  };
  const auto parse_complete_setting = [&](std::string_view text) {
    return complete(strategies::parse_setting(text), problem).front();
  };
  for (const char* text :
       {"megatron:tp=4,dp=2,recompute=full", "megatron:tp=2,dp=2,pp=2,micro=2", "fsdp:micro=4"}) {
    SCOPED_TRACE(text);
    const auto on = limited_to(Bytes{1e15});
    const auto own = std::get<Evaluated>(evaluate(on, parse_complete_setting(text)));
    Estimates estimates(on);
    const auto found =
        find_faster_settings(estimates, parse_complete_setting(text), problem, kBatch, 3);
    ASSERT_FALSE(found.empty());
    EXPECT_LE(found.size(), 3U);
    for (const auto& [change, point] : found) {
      const auto simulated = std::get<Evaluated>(evaluate(on, parse_complete_setting(point.name)));
      EXPECT_LT(simulated.simulation.iteration, own.simulation.iteration) << change;
    }
    const auto tight = limited_to(0.99 * found[0].point.simulation.memory);
    Estimates estimates_in_little(tight);
    for (const auto& [change, point] : find_faster_settings(
             estimates_in_little, parse_complete_setting(text), problem, kBatch, 3)) {
      EXPECT_LE(point.simulation.memory, tight.limits[0]) << change;
    }
  }
}

}  // namespace
}  // namespace tandem::search

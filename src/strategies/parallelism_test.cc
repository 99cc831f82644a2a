// Checks the degrees of known strategies, and that their graphs give the same degrees.
#include "strategies/parallelism.h"

#include <gtest/gtest.h>

#include "models/model.h"
#include "strategies/grid.h"

namespace tandem::strategies {
namespace {

std::string describe(std::string_view setting, const StepSize& step) {
  return to_text(compute_parallelism(parse_setting(setting), step));
}

TEST(Parallelism, OmitsDegreesOfOneFromText) {
  const StepSize step{.devices = 128, .batch = 512, .layers = 80};
  EXPECT_EQ(describe("dp", step), "DP 128");
  EXPECT_EQ(describe("dp", {}), "DP 1");
  EXPECT_EQ(describe("fsdp:micro=2", step), "DP 128, ZeRO-3, mbs 2 x 2");
  EXPECT_EQ(describe("megatron:tp=4,dp=8,zero=1,pp=4,interleave=5,micro=64,recompute=full", step),
            "DP 8 x TP 4 x PP 4 (VPP 5), ZeRO-1, mbs 1 x 64, recompute 80/80 layers");
  EXPECT_EQ(describe("megatron:tp=2/2,dp=16,cp=2,recompute=selective", step),
            "DP 16 x TP 4 x CP 2, recompute selective");
  EXPECT_EQ(describe("ep:ep=8", step), "DP 128, EP 8");
  EXPECT_EQ(describe("expert", step), "layouts by operator");
  EXPECT_EQ(describe("dp:micro=3", step), "DP 128, 3 micro-batches");
  auto some = compute_parallelism(parse_setting("megatron:tp=4,dp=32,recompute=full"), step);
  some.recompute_layers = 16;
  EXPECT_EQ(to_text(some), "DP 32 x TP 4, recompute 16/80 layers");
}

TEST(Parallelism, HasDegreesForMadmaxIfAllLayersAreShardedEqually) {
  StepSize step{.devices = 16, .batch = 64, .layers = {}, .kinds = {LayerKind::kTransformer}};
  EXPECT_EQ(describe("madmax", step), "DP 16, ZeRO-3");
  EXPECT_EQ(describe("madmax:transformer=ddp", step), "DP 16");
  EXPECT_EQ(describe("madmax:transformer=tp/ddp", step), "layouts by operator");
  EXPECT_EQ(compute_parallelism(parse_setting("madmax:transformer=fsdp/ddp"), step).zero,
            std::nullopt);
  step.kinds.push_back(LayerKind::kEmbedding);  // tables are over all devices
  EXPECT_EQ(compute_parallelism(parse_setting("madmax"), step).dp, std::nullopt);
}

TEST(Parallelism, AgreesWithTheGraphOfAStrategy) {
  const auto model =
      models::parse_model("gpt2:layers=2,hidden=64,heads=4,ffn=256,vocab=128,seq=32");
  const auto graph = model.build(16, DType::kFp32);
  machine::Machine machine;
  for (const std::int64_t count : {2, 4}) machine.levels.emplace_back().count = count;
  const machine::Digits digits(machine);
  const Problem problem(graph, digits);
  EXPECT_EQ(count_layers(graph), 2);
  const auto step = make_step_size(problem, 16, count_layers(graph));
  for (const std::string text :
       {"dp", "fsdp", "dp:micro=2", "deepspeed:zero=1", "deepspeed:zero=2", "megatron:tp=4,dp=2",
        "megatron:tp=2,dp=4,sp", "megatron:tp=2,dp=2,pp=2,micro=4",
        "megatron:tp=2,dp=1,pp=2,cp=2,micro=4", "megatron:tp=2,dp=4,zero=1,recompute=full",
        "dp:recompute=save_matmuls"}) {
    const auto setting = parse_setting(text);
    const auto made = make_strategy(setting, problem);
    ASSERT_TRUE(std::holds_alternative<Strategy>(made)) << text;
    const auto& strategy = std::get<Strategy>(made);
    const machine::Digits in_time(machine, strategy.schedule.micro_batches);
    const auto mapped = plan::parallelize(graph, in_time, strategy.choices, strategy.schedule);
    EXPECT_EQ(to_text(compute_parallelism(mapped, machine, 16, step.layers)),
              to_text(compute_parallelism(setting, step)))
        << text;
  }
}

}  // namespace
}  // namespace tandem::strategies

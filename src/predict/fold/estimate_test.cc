// Compares the estimate with the simulation of the whole program.
#include <gtest/gtest.h>

#include "lower/lower.h"
#include "plan/parallelize.h"
#include "predict/estimator.h"
#include "strategies/grid.h"

namespace tandem::predict {
namespace {

struct Case {
  std::string model;
  std::string machine;
  std::int64_t batch;
  std::string strategy;
  plan::Precision precision = {};
  bool waits_for_sends = false;
};

// Results to compare. The breakdown of time is that of the busiest rank, and if several ranks are
// nearly as busy, the estimate may choose another one.
enum class Compared : std::uint8_t { kAll, kTimeAndMemory };

void compare(const Case& c, Compared compared = Compared::kAll, double time_off = 0.01) {
  SCOPED_TRACE(c.model + " " + c.machine + " " + c.strategy +
               (c.waits_for_sends ? ", compute waits for sends" : ""));
  const auto model = models::parse_model(c.model);
  auto machine = machine::load_machine(c.machine);
  machine.device.software.waits_for_sends |= c.waits_for_sends;
  const machine::Digits digits(machine);
  const auto graph = model.build(c.batch, DType::kBf16);
  auto strategy = strategies::make_named_strategies(c.strategy, graph, digits)[0];
  strategy.schedule.precision = c.precision;
  SCOPED_TRACE(strategy.name);
  const machine::Digits with_time(machine, strategy.schedule.micro_batches);
  const auto mapped = plan::parallelize(graph, with_time, strategy.choices, strategy.schedule);
  const auto whole = simulate(
      lower::lower(mapped, with_time, machine.device.software, plan::Optimizer::kAdam), machine);
  Estimator estimator(model, machine, {DType::kBf16, plan::Optimizer::kAdam, c.precision});
  // Cached strategies must not change the result.
  for (const char* before : {"megatron:tp=1,dp=16", "megatron:tp=2,dp=8,micro=4"}) {
    estimator.estimate(strategies::parse_setting(before), c.batch);
  }
  const auto estimate = estimator.estimate(strategy.setting, c.batch);
  ASSERT_TRUE(estimate.has_value());
  auto fast = estimate->step;
  const auto near = [](double expected, double actual, double part) {
    EXPECT_NEAR(actual, expected, part * std::abs(expected) + 1e-12);
  };
  near(whole.iteration.value, fast.iteration.value, time_off);
  near(whole.memory.value, fast.memory.value, 0.01);
  const auto unused = whole.group_memory[0].unused;
  near(unused.value, fast.group_memory[0].unused.value, 0.02);
  // A loss adds one division per micro-batch.
  near(whole.model_flops.value, fast.model_flops.value, 1e-5);
  if (compared == Compared::kTimeAndMemory) return;
  near(whole.persistent.value, fast.persistent.value, 1e-9);
  near(whole.compute.value, fast.compute.value, 0.01);
  EXPECT_NEAR(whole.exposed_comm / whole.iteration, fast.exposed_comm / fast.iteration, 0.02);
  for (const auto& [kind, time] : whole.serialized) {
    SCOPED_TRACE(kind);
    EXPECT_NEAR(time.value, fast.serialized[kind].value,
                0.01 * time.value + 0.001 * whole.iteration.value);
  }
}

TEST(Estimate, EqualsTheSimulationOfTheFullProgram) {
  const std::string gpt = "gpt2:layers=8,hidden=1024,heads=16,ffn=4096,seq=1024,vocab=8192";
  const std::string llama = "llama3_8b:layers=8,hidden=1024,heads=16,kv_heads=8,ffn=4096,seq=1024";
  for (const auto& model : {gpt, llama}) {
    for (const char* strategy :
         {"dp", "fsdp", "deepspeed:zero=1,micro=4", "deepspeed:zero=2,micro=4",
          "deepspeed:zero=3,micro=4", "dp:micro=4", "dp:micro=8,recompute=full", "megatron:tp=8",
          "megatron:tp=2,dp=8", "megatron:tp=4,sp,micro=4", "megatron:tp=4,pp=2,dp=2",
          "megatron:tp=1,pp=4,dp=4,micro=16", "megatron:tp=2,pp=4,interleave=2,dp=2,micro=8",
          "megatron:tp=1,pp=2,dp=8,micro=8,recompute=full", "megatron:tp=2,cp=2,dp=4",
          "megatron:tp=2,pp=8,dp=1,micro=32", "megatron:tp=8,sp,pp=2,dp=1,micro=64",
          "megatron:tp=1,pp=2,interleave=2,dp=8,micro=16,recompute=selective",
          "megatron:tp=4,pp=2,interleave=4,dp=2,micro=32"}) {
      compare({model, "dgx_a100:2", 128, strategy});
    }
  }
}

TEST(Estimate, ModelsSoftwareProfiles) {
  const std::string gpt = "gpt2:layers=8,hidden=1024,heads=16,ffn=4096,seq=1024,vocab=8192";
  for (const char* software : {"megatron", "megatron-deepspeed", "torchtitan"}) {
    for (const char* strategy : {"dp", "dp:micro=4", "megatron:tp=2,dp=8,micro=4", "fsdp:micro=2",
                                 "megatron:tp=2,pp=4,dp=2,micro=8"}) {
      compare({gpt, std::string("dgx_a100:2,software=") + software, 128, strategy},
              Compared::kTimeAndMemory);
    }
  }
}

// Stages with different numbers of layers, and sends that block compute.
TEST(Estimate, ModelsUnequalStagesAndBlockingSends) {
  const std::string gpt = "gpt2:layers={},hidden=1024,heads=16,ffn=4096,seq=1024,vocab=8192";
  for (const bool waits : {false, true}) {
    for (const auto& [layers, strategy] :
         {std::pair(14, "megatron:tp=2,pp=4,ends=1-1,dp=2,micro=16"),
          {14, "megatron:tp=1,pp=4,ends=0-2,dp=4,micro=16"},
          {14, "megatron:tp=1,pp=2,ends=0-0,dp=8,micro=8"},
          {30, "megatron:tp=2,pp=4,interleave=2,ends=1-1,dp=2,micro=16"}}) {
      compare({fmt::format(fmt::runtime(gpt), layers), "dgx_a100:2", 128, strategy, {}, waits});
    }
  }
}

// MFU is relative to the peak of the weights' type, even if the loss is in fp32.
TEST(Estimate, ComputesMfuForTheTypeOfTheWeights) {
  const auto machine = machine::load_machine("dgx_a100:1");
  const machine::Digits digits(machine);
  const auto mfu = [&](const std::string& model) {
    const auto graph = models::parse_model(model).build(8, DType::kBf16);
    const auto made = strategies::make_named_strategies("dp", graph, digits)[0];
    const auto mapped = plan::parallelize(graph, digits, made.choices, made.schedule);
    return simulate(lower::lower(mapped, digits, machine.device.software, plan::Optimizer::kAdam),
                    machine)
        .mfu;
  };
  const std::string gpt = "gpt2:layers=2,hidden=1024,heads=16,ffn=4096,seq=512,vocab=1024";
  const auto narrow = mfu(gpt);
  EXPECT_NEAR(mfu(gpt + ",loss=plain"), narrow, 0.1 * narrow);
}

// Devices wait for their hosts, either within a slot or all the time.
TEST(Estimate, ModelsHostsOfPipelines) {
  const std::string gpt = "gpt2:layers=8,hidden=1024,heads=16,ffn=4096,seq=1024,vocab=8192";
  const std::string llama = "llama3_8b:layers=8,hidden=1024,heads=16,kv_heads=8,ffn=4096,seq=1024";
  for (const auto& model : {gpt, llama}) {
    for (const char* software : {"megatron-deepspeed", "aleph-alpha"}) {
      // Rough (Estimate::is_rough): the tied weight is sent, and host or compute waits.
      const bool compute_waits = software == std::string("aleph-alpha");
      const auto off = model == llama ? 0.01 : compute_waits ? 0.04 : 0.02;
      for (const char* strategy :
           {"megatron:tp=2,pp=4,dp=2,micro=8", "megatron:tp=2,pp=4,dp=2,micro=32",
            "megatron:tp=1,pp=4,dp=4,micro=16", "megatron:tp=1,pp=4,interleave=2,dp=4,micro=8",
            "megatron:tp=2,pp=8,dp=1,micro=32,recompute=full"}) {
        compare({model, std::string("dgx_a100:2,software=") + software, 128, strategy},
                Compared::kTimeAndMemory, off);
      }
    }
  }
}

// The host of each of two stages dispatches one send and one receive per micro-batch, and two per
// step for the tied weight. All else takes no host time.
TEST(Estimate, ModelsSendsDispatchedByHosts) {
  auto machine = machine::load_machine("dgx_a100:1");
  auto& software = machine.device.software;
  software.dispatch_send = Seconds{0.01};
  const auto model =
      models::parse_model("gpt2:layers=2,hidden=256,heads=4,ffn=512,seq=64,vocab=256");
  const auto graph = model.build(32, DType::kBf16);
  const auto simulate_plan = [&] {
    const machine::Digits digits(machine);
    const auto made =
        strategies::make_named_strategies("megatron:tp=1,pp=2,dp=4,micro=8", graph, digits)[0];
    const machine::Digits with_time(machine, made.schedule.micro_batches);
    const auto mapped = plan::parallelize(graph, with_time, made.choices, made.schedule);
    return simulate(
               lower::lower(mapped, with_time, machine.device.software, plan::Optimizer::kAdam),
               machine)
        .iteration.value;
  };
  constexpr double kSends = 8 * 2 + 2;
  EXPECT_NEAR(simulate_plan(), kSends * 0.01, 0.001);
  software.dispatch_send = {};
  EXPECT_LT(simulate_plan(), 0.01);
  software.dispatch_collective = Seconds{0.01};  // gradients' collectives, too
  EXPECT_GT(simulate_plan(), (kSends + 1) * 0.01);
}

// A bucket of 2 GB spans several layers of LLaMA-65B. When an estimate had one bucket for all, a
// step took a third of its compute.
TEST(Estimate, LeavesGradientsInBucketsToTheSimulation) {
  const auto model = models::parse_model("llama_65b");
  const auto machine = machine::load_machine("dgx_a100:256");
  Estimator estimator(model, machine, {DType::kBf16, plan::Optimizer::kAdam, {}});
  EXPECT_TRUE(estimator.estimate(strategies::parse_setting("fsdp"), 2048));
  for (const char* setting : {"fsdp:bucket=2GB", "fsdp:bucket=25MB", "dp:bucket=25MB"}) {
    EXPECT_FALSE(estimator.estimate(strategies::parse_setting(setting), 2048)) << setting;
  }
}

// Machines with more levels than Streams has room for.
TEST(Estimate, LeavesMachinesOfManyLevelsToTheSimulation) {
  const auto model =
      models::parse_model("gpt2:layers=8,hidden=1024,heads=16,ffn=4096,seq=1024,vocab=8192");
  const auto has_estimate = [&](int levels) {
    std::string text =
        "machine tall\ndevice thing\n  memory 80 GB\n  bandwidth 900 GB/s\n  peak bf16 100 "
        "TFLOP/s\n"
        "  peak fp32 10 TFLOP/s\n";
    for (int l = 0; l < levels; ++l) {
      text += "level l" + std::to_string(l) + " 2\n  bandwidth 20 GB/s\n  latency 1 us\n";
    }
    const auto machine = machine::parse_machine(text, "tall.machine");
    Estimator estimator(model, machine, {DType::kBf16, plan::Optimizer::kAdam, {}});
    return estimator.estimate(strategies::parse_setting("dp"), 128).has_value();
  };
  EXPECT_TRUE(has_estimate(6));
  EXPECT_FALSE(has_estimate(7));
}

// If stages end inside layers, the estimate is 1 to 2.5 % off and says that it is rough.
TEST(Estimate, IsRoughForHostBoundUnevenStages) {
  const auto model =
      models::parse_model("gpt2:layers=11,hidden=1024,heads=16,ffn=4096,seq=1024,vocab=8192");
  const auto machine = machine::load_machine("dgx_a100:2,software=megatron-deepspeed");
  Estimator estimator(model, machine, {DType::kBf16, plan::Optimizer::kAdam, {}});
  const auto is_rough = [&](const char* setting) {
    return estimator.estimate(strategies::parse_setting(setting), 128).value().is_rough();
  };
  EXPECT_TRUE(is_rough("megatron:tp=2,pp=4,dp=2,micro=8"));
  EXPECT_FALSE(is_rough("megatron:tp=2,dp=8,micro=8"));
}

// With few layers the delay of the host does not settle, and the estimate says that it is rough.
TEST(Estimate, IsRoughForFewHostBoundLayers) {
  const auto machine = machine::load_machine("dgx_a100:4,software=megatron-deepspeed");
  const auto is_rough = [&](const std::string& layers) {
    const auto model =
        models::parse_model("gpt2:hidden=2048,heads=16,ffn=8192,seq=512,vocab=8192," + layers);
    Estimator estimator(model, machine, {DType::kBf16, plan::Optimizer::kAdam, {}});
    return estimator.estimate(strategies::parse_setting("dp:micro=2"), 128).value().is_rough();
  };
  EXPECT_TRUE(is_rough("layers=6"));
  EXPECT_FALSE(is_rough("layers=12"));
}

// The number of stages does not divide the layers: stages end inside layers, and the loss may be a
// stage of its own.
TEST(Estimate, ModelsStagesThatEndInsideLayers) {
  const std::string gpt = "gpt2:hidden=1024,heads=16,ffn=4096,seq=1024,vocab=8192";
  const std::string llama = "llama3_8b:hidden=1024,heads=16,kv_heads=8,ffn=4096,seq=1024";
  for (const auto& model : {gpt, llama}) {
    for (const char* layers : {",layers=9", ",layers=11", ",layers=14"}) {
      for (const char* strategy :
           {"megatron:tp=2,pp=2,dp=4,micro=8", "megatron:tp=1,pp=4,dp=4,micro=16",
            "megatron:tp=2,pp=8,dp=1,micro=32", "megatron:tp=1,pp=8,dp=2,micro=2",
            "megatron:tp=2,sp,pp=4,dp=2,micro=16", "megatron:tp=1,pp=4,interleave=2,dp=4,micro=8",
            "megatron:tp=2,sp,pp=4,interleave=2,dp=2,micro=8,recompute=full",
            "megatron:tp=2,pp=4,dp=2,micro=16,recompute=full",
            "megatron:tp=1,pp=8,dp=2,micro=16,recompute=selective",
            "megatron:tp=2,sp,pp=8,dp=1,micro=32,recompute=full"}) {
        compare({model + layers, "dgx_a100:2", 128, strategy}, Compared::kTimeAndMemory);
      }
    }
    if (model == llama) {
      compare({model + ",layers=11", "dgx_a100:2", 128, "megatron:tp=2,pp=4,dp=2,zero=1,micro=16"},
              Compared::kTimeAndMemory);
    }
    for (const char* strategy : {"megatron:tp=1,pp=16,dp=1,micro=32",
                                 "megatron:tp=1,pp=16,dp=1,micro=32,recompute=full"}) {
      for (const char* layers : {",layers=9", ",layers=14"}) {
        compare({model + layers, "dgx_a100:2", 128, strategy}, Compared::kTimeAndMemory);
      }
    }
  }
}

// Rough cases: another stage of the same rank uses the tied weight, the tied weight is sharded,
// gradients are sharded, or there are few layers. The estimate is still good enough to choose
// strategies to simulate.
TEST(Estimate, IsRoughForUnmodelledEffects) {
  constexpr double kNearEnough = 0.1;
  const auto compare_roughly = [&](const std::string& layers, const std::string& setting) {
    const auto text = "gpt2:hidden=1024,heads=16,ffn=4096,seq=1024,vocab=8192" + layers;
    const auto model = models::parse_model(text);
    const auto machine = machine::load_machine("dgx_a100:2");
    Estimator estimator(model, machine, {DType::kBf16, plan::Optimizer::kAdam, {}});
    const auto estimate = estimator.estimate(strategies::parse_setting(setting), 128).value();
    EXPECT_TRUE(estimate.is_rough()) << layers << " " << setting;
    const auto graph = model.build(128, DType::kBf16);
    const machine::Digits digits(machine);
    const auto strategy = strategies::make_named_strategies(setting, graph, digits).at(0);
    const machine::Digits with_time(machine, strategy.schedule.micro_batches);
    const auto mapped = plan::parallelize(graph, with_time, strategy.choices, strategy.schedule);
    const auto whole = simulate(
        lower::lower(mapped, with_time, machine.device.software, plan::Optimizer::kAdam), machine);
    EXPECT_NEAR(estimate.step.iteration / whole.iteration, 1, kNearEnough)
        << layers << " " << setting;
    EXPECT_NEAR(estimate.step.memory / whole.memory, 1, kNearEnough) << layers << " " << setting;
  };
  compare_roughly(",layers=9", "megatron:tp=2,sp,pp=2,interleave=4,dp=4,micro=8");
  compare_roughly(",layers=8", "megatron:tp=2,pp=2,dp=4,micro=8,zero=1");
  compare_roughly(",layers=8", "megatron:tp=2,pp=2,dp=4,micro=8,zero=2");
  compare_roughly(",layers=6", "megatron:tp=2,pp=2,dp=4,micro=8");
}

// The gradients of experts arrive long after the backward pass, and those that arrive first are
// applied while the others move. The estimate is within 1 % or says that it is rough.
TEST(Estimate, IsRoughWhereUpdatesOverlapLateGradients) {
  const auto machine = machine::load_machine("dgx_a100_40gb:4");
  int rough = 0;
  for (const std::string experts : {"4", "8"}) {
    for (const std::string layers : {"4", "7", "8", "12"}) {
      const auto text = "mixtral_8x7b:seq=2048,experts=" + experts + ",layers=" + layers;
      const auto model = models::parse_model(text);
      Estimator estimator(model, machine, {DType::kBf16, plan::Optimizer::kAdam, {}});
      for (const std::string setting :
           {"megatron:tp=2,dp=16", "megatron:tp=4,dp=8,sp", "megatron:tp=8,dp=4"}) {
        const auto estimate = estimator.estimate(strategies::parse_setting(setting), 32);
        ASSERT_TRUE(estimate.has_value()) << text << " " << setting;
        if (estimate->is_rough()) {
          ++rough;
        } else {
          compare({text, "dgx_a100_40gb:4", 32, setting}, Compared::kTimeAndMemory);
        }
      }
    }
  }
  EXPECT_GT(rough, 0);
  EXPECT_LT(rough, 24);
}

// If layers need little of a stage's memory, the ends of the network decide. Here both ends use a
// weight, and the last stage gathers its shards.
TEST(Estimate, ModelsMemoryOfPipelinesWithRecomputation) {
  const std::string gpt = "gpt2:hidden=1024,heads=16,ffn=4096,seq=1024,vocab=50257";
  for (const char* layers : {",layers=16", ",layers=18"}) {
    for (const char* strategy :
         {"megatron:tp=4,pp=4,dp=1,micro=32,recompute=full",
          "megatron:tp=4,sp,pp=4,dp=1,micro=32,recompute=full",
          "megatron:tp=2,sp,pp=8,dp=1,micro=64,recompute=full",
          "megatron:tp=1,pp=16,dp=1,micro=64,recompute=full",
          "megatron:tp=2,sp,pp=4,interleave=2,dp=2,micro=4,recompute=full"}) {
      compare({gpt + layers, "dgx_a100:2", 128, strategy}, Compared::kTimeAndMemory);
    }
  }
}

// GPT-3 on 1,024 devices, in 64 and in 128 stages.
TEST(Estimate, ModelsMoreStagesThanLayers) {
  for (const char* strategy : {"megatron:tp=8,pp=64,dp=2,micro=128,sp,recompute=full",
                               "megatron:tp=2,pp=128,dp=4,micro=128"}) {
    compare({"gpt3_175b", "dgx_a100:128", 2048, strategy});
  }
}

// Unfused operators in fp32, a loss that every device computes, and an allocator with
// fragmentation.
TEST(Estimate, ModelsPlainSoftware) {
  const std::string llama =
      "llama3_8b:layers=8,hidden=1024,heads=16,kv_heads=8,ffn=4096,seq=1024,norm=plain,loss=plain,"
      "attention=wide";
  for (const char* strategy :
       {"megatron:tp=2,whole_loss,dp=8,zero=1,micro=4", "megatron:tp=2,whole_loss,pp=2,dp=4"}) {
    compare({llama, "dgx_a100:2,software=aleph-alpha", 128, strategy}, Compared::kTimeAndMemory);
  }
}

// The order of strategies does not matter: stages that were lowered or timed for one strategy are
// right for another.
TEST(Estimate, DoesNotDependOnEarlierEstimates) {
  const auto model =
      models::parse_model("gpt2:layers=8,hidden=1024,heads=16,ffn=4096,seq=1024,vocab=8192");
  const auto machine = machine::load_machine("dgx_a100:2");
  const Training training{DType::kBf16, plan::Optimizer::kAdam};
  Estimator all(model, machine, training);
  for (const std::int64_t tp : {1, 2, 4}) {
    for (const std::int64_t pp : {1, 2, 4}) {
      for (const std::int64_t micro : {2, 4, 8, 16, 32}) {
        using strategies::Recompute;
        for (const auto recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
          strategies::Setting setting{.family = strategies::Family::kMegatron,
                                      .tp = {tp},
                                      .dp = 16 / tp / pp,
                                      .sp = tp > 1,
                                      .pp = pp,
                                      .micro = micro,
                                      .recompute = recompute};
          SCOPED_TRACE(to_text(setting));
          Estimator alone(model, machine, training);
          const auto a = all.estimate(setting, 128);
          const auto b = alone.estimate(setting, 128);
          ASSERT_EQ(a.has_value(), b.has_value());
          if (!a) continue;
          const auto time = b->step.iteration.value;
          EXPECT_NEAR(a->step.iteration.value, time, 1e-6 * time);
          EXPECT_NEAR(a->step.exposed_comm.value, b->step.exposed_comm.value, 1e-6 * time);
          EXPECT_NEAR(a->step.mfu, b->step.mfu, 1e-6 * b->step.mfu);
          EXPECT_EQ(a->step.memory, b->step.memory);
        }
      }
    }
  }
}

// Sharded weights depend on the number of data-parallel devices, so 8 must not reuse results of 16.
TEST(Estimate, CachesNothingAcrossShardSizes) {
  const std::string gpt = "gpt2:layers=8,hidden=1024,heads=16,ffn=4096,seq=1024,vocab=8192";
  const auto model = models::parse_model(gpt);
  const auto machine = machine::load_machine("dgx_a100:2");
  const Training training{DType::kBf16, plan::Optimizer::kAdam};
  const auto setting = strategies::parse_setting("megatron:tp=2,dp=8,zero=1,micro=2");
  Estimator fresh(model, machine, training);
  Estimator used(model, machine, training);
  used.estimate(strategies::parse_setting("megatron:tp=2,dp=4,zero=1,pp=2,micro=4"), 128);
  const auto first = fresh.estimate(setting, 128);
  const auto second = used.estimate(setting, 128);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->step.iteration, second->step.iteration);
  EXPECT_EQ(first->step.memory, second->step.memory);
  compare({gpt, "dgx_a100:2", 128, "megatron:tp=2,dp=8,zero=1,micro=2"});
}

TEST(Estimate, ModelsTensorsSavedForBackward) {
  const std::string gpt = "gpt2:layers=8,hidden=1024,heads=16,ffn=4096,seq=1024,vocab=8192";
  for (const bool wide : {false, true}) {
    for (const char* strategy : {"dp", "deepspeed:zero=1", "deepspeed:zero=2,micro=4", "fsdp",
                                 "megatron:tp=4,sp,micro=4", "megatron:tp=2,pp=4,dp=2,micro=8"}) {
      compare({gpt + ",dropout=true", "dgx_a100:2", 128, strategy, {true, wide}});
    }
  }
}

}  // namespace
}  // namespace tandem::predict

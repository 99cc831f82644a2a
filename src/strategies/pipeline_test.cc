// Pipelines, micro-batches and recomputation: checks where models are cut, and that they train like
// one device.
#include "strategies/pipeline.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "lower/lower.h"
#include "lower/training_step_test_support.h"
#include "models/model.h"
#include "plan/random_choices_test_support.h"
#include "predict/simulate.h"
#include "strategies/grid.h"
#include "strategies/stages.h"

namespace tandem::strategies {
namespace {

using graph::Graph;
using machine::Digits;

Graph build(const std::string& text, std::int64_t batch) {
  return models::parse_model(text).build(batch, DType::kFp32);
}

lower::Program lower_strategy(const Graph& model, const Strategy& s,
                              const std::vector<std::int64_t>& counts) {
  const auto digits = plan::make_digits(counts, s.schedule.micro_batches);
  return lower::lower(plan::parallelize(model, digits, s.choices, s.schedule), digits, {},
                      plan::Optimizer::kSgd);
}

TEST(Stages, EndBetweenTheLayersOfATransformer) {
  const auto model = build("gpt2:layers=4,hidden=8,heads=2,ffn=16,vocab=8,seq=4", 4);
  const auto digits = plan::make_digits({2});
  const Problem problem(model, digits);
  EXPECT_EQ(find_cuts(problem).back(), model.outputs()[0].index());
  const auto stage = assign_stages(problem, 2, 1);
  ASSERT_TRUE(stage.has_value());
  std::map<std::string, std::set<int>> of_layer;
  for (auto id : model.ids()) {
    const auto& name = model.node(id).name;
    if (name.starts_with("l") && name.find('.') != std::string::npos) {
      of_layer[name.substr(0, name.find('.'))].insert((*stage)[id.index()]);
    }
  }
  EXPECT_EQ(of_layer.at("l0"), std::set<int>{0});
  EXPECT_EQ(of_layer.at("l3"), std::set<int>{1});
  EXPECT_FALSE(assign_stages(problem, 1000, 1).has_value());
}

TEST(Stages, AreEqualForEqualLayers) {
  const auto model = build("mlp:layers=8,hidden=8,inputs=8,outputs=8", 4);
  const auto digits = plan::make_digits({4});
  const auto stage = assign_stages(Problem(model, digits), 4, digits.all());
  ASSERT_TRUE(stage.has_value());
  std::map<int, int> linears;
  for (auto id : model.ids()) {
    if (model.node(id).op.name() == "linear") ++linears[(*stage)[id.index()]];
  }
  EXPECT_EQ(linears, (std::map<int, int>{{0, 2}, {1, 2}, {2, 2}, {3, 2}}));
}

// The embedding counts as `before` layers, the norm and the head as `behind` layers.
TEST(Stages, CountOperatorsBeforeAndAfterTheLayers) {
  using Counts = std::vector<std::int64_t>;
  EXPECT_EQ(divide_layers(40, 4, {1, 2}), (Counts{10, 11, 11, 8}));
  EXPECT_EQ(divide_layers(30, 4, {1, 1}), (Counts{7, 8, 8, 7}));
  EXPECT_EQ(divide_layers(8, 4, {}), (Counts{2, 2, 2, 2}));
  EXPECT_EQ(divide_layers(4, 4, {1, 1}), std::nullopt);

  const auto model = build("gpt2:layers=6,hidden=8,heads=2,ffn=16,vocab=8,seq=4", 4);
  const auto digits = plan::make_digits({4});
  const auto stage = assign_stages(Problem(model, digits), 4, digits.all(), {}, Ends{1, 1});
  ASSERT_TRUE(stage.has_value());
  std::map<int, std::set<std::string>> layers;
  for (auto id : model.ids()) {
    const auto& name = model.node(id).name;
    const auto dot = name.find('.');
    if (name.starts_with("l") && dot != std::string::npos) {
      layers[(*stage)[id.index()]].insert(name.substr(0, dot));
    }
  }
  EXPECT_EQ(layers[0], std::set<std::string>{"l0"});
  EXPECT_EQ(layers[1], (std::set<std::string>{"l1", "l2"}));
  EXPECT_EQ(layers[2], (std::set<std::string>{"l3", "l4"}));
  EXPECT_EQ(layers[3], std::set<std::string>{"l5"});
  EXPECT_EQ((*stage)[model.outputs()[0].index()], 3);
}

// The group of devices that is twice as fast gets twice as many layers.
TEST(Stages, AreProportionalToTheSpeedsOfDevices) {
  const auto model = build("mlp:layers=9,hidden=8,inputs=8,outputs=8", 4);
  auto machine = machine::load_machine("summit:2");
  auto fast = machine.device;
  for (auto& [dtype, peak] : fast.peak) peak = 2 * peak;
  machine.groups = {{"fast", fast, 1}, {"slow", machine.device, 1}};
  const Digits digits(machine);
  const auto stage = assign_stages(Problem(model, digits), 2, machine::bit(0));
  ASSERT_TRUE(stage.has_value());
  std::map<int, int> linears;
  for (auto id : model.ids()) {
    if (model.node(id).op.name() == "linear") ++linears[(*stage)[id.index()]];
  }
  EXPECT_EQ(linears, (std::map<int, int>{{0, 6}, {1, 3}}));
}

// Loss, gradients and weights are exactly equal.
TEST(Pipeline, TrainsLikeOneDevice) {
  struct Case {
    std::string strategy, model;
    std::int64_t batch;
    std::vector<std::int64_t> counts;
  };
  const std::string gpt = "gpt2:layers=2,hidden=8,heads=2,ffn=8,vocab=8,seq=4";
  const std::string mlp = "mlp:layers=4,hidden=4,inputs=4,outputs=4";
  const std::vector<Case> cases = {
      {"megatron:pp=2,tp=1", mlp, 8, {2}},
      {"megatron:pp=2,tp=2,micro=4", mlp, 8, {2, 2}},
      {"megatron:pp=2,tp=1,dp=2,micro=2,interleave=2", mlp, 8, {2, 2}},
      {"megatron:pp=4,tp=1,micro=4,recompute=full", mlp, 4, {2, 2}},
      {"dp:micro=2,recompute=full", gpt, 4, {2}},
      {"fsdp:micro=2,recompute=selective", gpt, 4, {2}},
      {"megatron:tp=2,sp,micro=2,recompute=save_matmuls", gpt, 4, {2, 2}},
      {"deepspeed:zero=1,micro=2", gpt, 4, {2}},
      {"deepspeed:zero=2,micro=2", gpt, 4, {2}},
      {"megatron:pp=2,tp=1,micro=2", gpt, 2, {2}},
      {"megatron:pp=2,tp=2,sp,micro=2,recompute=full", gpt, 2, {2, 2}},
      {"megatron:tp=1,cp=2", gpt, 2, {2}},
      {"megatron:tp=1,cp=4,ring", gpt, 2, {2, 2}},
      {"megatron:tp=2,cp=2,ring", gpt, 2, {2, 2}},
      {"megatron:tp=1,cp=2,dp=1,pp=2,ring,micro=2,recompute=full", gpt, 2, {2, 2}},
      {"fsdp:micro=2,bucket=1GB", gpt, 4, {2}},
      {"megatron:tp=1,dp=2,pp=2,micro=2,bucket=100B", gpt, 4, {2, 2}},
      {"megatron:tp=1,dp=2,pp=2,micro=2,zero=1", gpt, 4, {2, 2}},
      {"megatron:tp=2,sp,micro=2,recompute=full,zero=2", gpt, 4, {2, 2}},
      {"megatron:tp=1,cp=2,micro=2,zero=3", gpt, 4, {2, 2}},
      {"megatron:tp=1,dp=2,pp=2,micro=2,interleave=2,zero=3", mlp, 4, {2, 2}},
  };
  for (const auto& c : cases) {
    const auto model = build(c.model, c.batch);
    for (const auto& s : make_named_strategies(c.strategy, model, plan::make_digits(c.counts))) {
      SCOPED_TRACE(s.name);
      lower::expect_same_step(model, lower_strategy(model, s, c.counts), 1);
    }
  }
}

// ZeRO's levels gather and reduce as specified, on 2 devices in 4 micro-batches.
TEST(Pipeline, CommunicatesByZeroStage) {
  const auto model = build("mlp:layers=2,hidden=8,inputs=8,outputs=8", 8);
  const auto moves = [&](const std::string& name) {
    const auto s = make_named_strategies(name, model, plan::make_digits({2}))[0];
    std::map<std::string, int> out;
    for (const auto& task : lower_strategy(model, s, {2}).tasks) {
      if (task.kind != lower::TaskKind::kMove || is_local(task.step.kind)) continue;
      out[std::string(machine::name(task.step.kind))] += task.when == lower::When::kEach ? 4 : 1;
    }
    return out;
  };
  using Moves = std::map<std::string, int>;
  EXPECT_EQ(moves("deepspeed:zero=0,micro=4"), (Moves{{"all_reduce", 2}}));
  EXPECT_EQ(moves("deepspeed:zero=1,micro=4"), (Moves{{"all_gather", 2}, {"reduce_scatter", 2}}));
  EXPECT_EQ(moves("deepspeed:zero=2,micro=4"), (Moves{{"all_gather", 2}, {"reduce_scatter", 8}}));
  EXPECT_EQ(moves("deepspeed:zero=3,micro=4"), (Moves{{"all_gather", 12}, {"reduce_scatter", 8}}));
  for (const char* zero : {"zero=0", "zero=1", "zero=2", "zero=3"}) {
    EXPECT_EQ(moves(fmt::format("megatron:tp=1,micro=4,{}", zero)),
              moves(fmt::format("deepspeed:micro=4,{}", zero)));
  }
}

// With equal stages and free sends, filling and draining takes as long as ranks - 1 micro-batches.
// The first rank holds as many micro-batches as there are ranks under 1F1B, and all under GPipe.
TEST(Pipeline, FillsAndDrains) {
  machine::Machine m = plan::make_machine({4});
  m.device.peak = {{DType::kFp32, FlopsPerSecond{1e12}}};
  m.device.bandwidth = BytesPerSecond{1e13};
  m.levels[0].bandwidth = BytesPerSecond{1e15};
  const auto model = build("mlp:layers=8,hidden=64,inputs=64,outputs=64", 256);
  const auto simulate_strategy = [&](const std::string& name, plan::Order order) {
    auto s = make_named_strategies(name, model, Digits(m))[0];
    s.schedule.order = order;
    const Digits digits(m, s.schedule.micro_batches);
    return predict::simulate(lower::lower(plan::parallelize(model, digits, s.choices, s.schedule),
                                          digits, m.device.software, plan::Optimizer::kSgd),
                             m);
  };
  const auto one = simulate_strategy("megatron:tp=1,pp=4,micro=16", plan::Order::k1F1B);
  EXPECT_NEAR(one.bubble / one.iteration, 3.0 / 19, 0.03);
  const auto gpipe = simulate_strategy("megatron:tp=1,pp=4,micro=16", plan::Order::kGpipe);
  EXPECT_NEAR(gpipe.iteration / one.iteration, 1, 0.03);
  const double activations = (one.memory - one.persistent).value;
  EXPECT_GT((gpipe.memory - gpipe.persistent).value, 2.5 * activations);
}

// With delayed updates nothing is filled or drained. A step takes as long as the slowest rank works
// on its micro-batches, and two versions of a weight are held.
TEST(Pipeline, TakesTheTimeOfTheSlowestRankWithDelayedUpdates) {
  constexpr double kMicro = 1e-6;
  machine::Machine m = plan::make_machine({4});
  m.device.peak = {{DType::kFp32, FlopsPerSecond{1e30}}};
  m.device.bandwidth = BytesPerSecond{1e30};
  m.device.launch = Seconds{kMicro};
  m.levels[0].bandwidth = BytesPerSecond{1e30};
  const auto make_strategy = [&](const Graph& model, const std::string& name) {
    return make_named_strategies(name, model, Digits(m), plan::Semantics::kDelayed1)[0];
  };
  const auto simulate_strategy = [&](const Graph& model, const Strategy& s) {
    const Digits digits(m, s.schedule.micro_batches);
    return predict::simulate(lower::lower(plan::parallelize(model, digits, s.choices, s.schedule),
                                          digits, m.device.software, plan::Optimizer::kSgd),
                             m);
  };
  // Every task takes a microsecond. For each micro-batch these are operators forward and backward
  // and the gradient sums of every weight; for each step, an update of every weight.
  const auto slowest = [&](const Graph& model, const Strategy& s) {
    std::map<int, double> operators;
    std::map<int, double> weights;
    for (auto id : model.ids()) {
      const auto role = model.node(id).op.role();
      if (is_weight(model.node(id))) ++weights[s.choices[id.index()].stage];
      if (role == ops::Role::kCompute) ++operators[s.choices[id.index()].stage];
    }
    double most = 0;
    for (const auto& [stage, count] : operators) {
      const auto micro = static_cast<double>(s.schedule.micro_batches);
      most = std::max(most, micro * (2 * count + weights[stage]) + weights[stage]);
    }
    return most;
  };
  for (const int layers : {6, 8, 11}) {
    const auto model =
        build(fmt::format("mlp:layers={},hidden=64,inputs=64,outputs=64", layers), 256);
    for (const int micro : {4, 8, 16}) {
      SCOPED_TRACE(fmt::format("{} layers, {} micro-batches", layers, micro));
      const auto strategy =
          make_strategy(model, fmt::format("megatron:tp=1,pp=4,stale,micro={}", micro));
      const auto s = simulate_strategy(model, strategy);
      EXPECT_NEAR(s.iteration / Seconds{kMicro}, slowest(model, strategy), 1e-6);
      EXPECT_NEAR(s.compute / s.iteration, 1, 1e-9);
      EXPECT_NEAR(s.bubble / s.iteration, 0, 1e-9);
      const auto prompt = simulate_strategy(
          model, make_strategy(model, fmt::format("megatron:tp=1,pp=4,micro={}", micro)));
      EXPECT_LT(s.iteration, prompt.iteration);
      EXPECT_EQ(s.persistent, 2 * prompt.persistent);
      EXPECT_GE(s.memory - s.persistent, prompt.memory - prompt.persistent);
      EXPECT_LE(s.memory - s.persistent, 1.3 * (prompt.memory - prompt.persistent));
    }
  }
}

TEST(Pipeline, TrainsLikeOneDeviceWithDelayedGradients) {
  const std::string gpt = "gpt2:layers=2,hidden=8,heads=2,ffn=8,vocab=8,seq=4";
  const std::string mlp = "mlp:layers=4,hidden=4,inputs=4,outputs=4";
  struct Case {
    std::string strategy, model;
    std::int64_t batch;
    std::vector<std::int64_t> counts;
  };
  const std::vector<Case> cases = {
      {"megatron:pp=2,tp=1,stale,micro=2", mlp, 8, {2}},
      {"megatron:pp=2,tp=2,stale,micro=4", mlp, 8, {2, 2}},
      {"megatron:pp=4,tp=1,stale,micro=4,recompute=full", mlp, 4, {2, 2}},
      {"megatron:pp=2,tp=2,sp,stale,micro=2,recompute=full", gpt, 2, {2, 2}},
      {"megatron:pp=2,tp=1,dp=2,stale,micro=2", gpt, 4, {2, 2}},
  };
  for (const auto& c : cases) {
    const auto model = build(c.model, c.batch);
    for (const auto& s : make_named_strategies(c.strategy, model, plan::make_digits(c.counts),
                                               plan::Semantics::kDelayed1)) {
      SCOPED_TRACE(s.name);
      const auto program = lower_strategy(model, s, c.counts);
      for (std::int64_t steps = 1; steps <= 4; ++steps) {
        lower::expect_same_steps(model, program, 1, steps);
      }
    }
  }
}

// One stage's device is slower, so the fast stage stalls. Tasks take a launch of their own device.
// The slow stage's tasks are a chain between the fast stage's first and last ones.
TEST(Pipeline, RunsEachStageAtTheSpeedOfItsDevice) {
  machine::Machine m = plan::make_machine({2});
  const auto device = [](double launch) {
    machine::Device d;
    d.peak = {{DType::kFp32, FlopsPerSecond{1e30}}};
    d.bandwidth = BytesPerSecond{1e30};
    d.launch = Seconds{launch};
    return d;
  };
  m.groups = {{"fast", device(1), 1}, {"slow", device(3), 1}};
  m.device = machine::make_weakest_device(m.groups);
  m.levels[0].bandwidth = BytesPerSecond{1e30};
  const auto model = build("mlp:layers=4,hidden=8,inputs=8,outputs=8", 8);
  const auto s = make_named_strategies("megatron:tp=1,pp=2,micro=4", model, Digits(m))[0];
  const Digits digits(m, 4);
  const auto program = lower::lower(plan::parallelize(model, digits, s.choices, s.schedule), digits,
                                    m.device.software, plan::Optimizer::kSgd);
  const auto simulation = predict::simulate(program, m);
  double fill_and_drain = 0;
  double chain = 0;
  for (const auto& span : simulation.timeline) {
    if (span.stream != 0) continue;
    const double launch = span.device_class == 0 ? 1 : 3;
    EXPECT_NEAR((span.end - span.start).value, launch, 1e-9);
    const auto kind = program.tasks[span.task].kind;
    const bool fills = kind == lower::TaskKind::kForward && span.micro_batch == 0;
    const bool drains = kind != lower::TaskKind::kForward && span.micro_batch == 3;
    if (span.device_class == 0 && (fills || drains)) fill_and_drain += launch;
    if (span.device_class == 1 && kind != lower::TaskKind::kUpdate) chain += launch;
  }
  // The fast stage need not wait for the slow stage's last tasks.
  EXPECT_LE(simulation.iteration.value, fill_and_drain + chain);
  EXPECT_GE(simulation.iteration.value, fill_and_drain + chain - 3);
  EXPECT_EQ(simulation.busiest, 1U);
  EXPECT_EQ(simulation.group_memory.size(), 2U);
}

// The default applies only if no number is given.
TEST(Pipeline, UsesTheGivenMicroBatches) {
  const auto model = build("mlp:layers=4,hidden=8,inputs=8,outputs=8", 32);
  const auto name = [&](const std::string& text) {
    return make_named_strategies(text, model, plan::make_digits({2}))[0].name;
  };
  EXPECT_EQ(name("megatron:tp=1,pp=2"), "megatron:tp=1,dp=1,pp=2,micro=16");
  EXPECT_EQ(name("megatron:tp=1,pp=2,micro=1"), "megatron:tp=1,dp=1,pp=2,micro=1");
  EXPECT_EQ(name("dp:micro=1"), "dp");
}

// Batch norms are over groups of 32 of 256 samples: 8 groups, 4 of them on each replica.
TEST(Pipeline, ChoosesMicroBatchesThatDivideBatchNormGroups) {
  const auto model = build("resnet50", 256);
  const auto name =
      make_named_strategies("megatron:pp=4,dp=2", model, plan::make_digits({2, 4}))[0].name;
  EXPECT_EQ(name, "megatron:tp=1,dp=2,pp=4,micro=4");
}

TEST(Pipeline, ReportsErrors) {
  const auto model = build("mlp:layers=2,hidden=8,inputs=8,outputs=8", 8);
  auto semantics = plan::Semantics::kSynchronous;
  const auto error = [&](const std::string& name) {
    try {
      make_named_strategies(name, model, plan::make_digits({4, 2}), semantics);
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(error("dp:micro=3"),
            "dp:micro=3: batch 8 is not divisible by 3 micro-batches x 8 devices (%linear1) "
            "(the nearest possible value is micro=1)");
  EXPECT_EQ(error("megatron:pp=3"),
            "megatron:pp=3: 8 devices cannot be divided into such groups (the nearest possible "
            "value is pp=4)");
  EXPECT_EQ(error("megatron:interleave=2"),
            "megatron:interleave=2: interleave requires pipeline stages (add pp=N)");
  EXPECT_EQ(error("megatron:tp=1,pp=8,micro=2"),
            "megatron:tp=1,pp=8,micro=2: mlp can be split into at most 4 stages");
  EXPECT_EQ(error("megatron:tp=1,pp=2,dp=2"),
            "megatron:tp=1,dp=2,pp=2: tp x dp x pp is 4, but the machine has 8 devices (use dp=4)");
  EXPECT_EQ(error("megatron:tp=1,pp=2,stale"),
            "megatron:tp=1,pp=2,stale: delays weight updates by one step, so training differs from "
            "that on one device (use --stale-weights to allow it)");
  semantics = plan::Semantics::kDelayed1;
  EXPECT_EQ(error("megatron:stale"),
            "megatron:stale: stale requires a pipeline with one stage per rank (add pp=N)");
  EXPECT_EQ(error("megatron:pp=2,interleave=2,stale"),
            "megatron:pp=2,interleave=2,stale: stale requires a pipeline with one stage per rank "
            "(remove interleave)");
  EXPECT_EQ(error("megatron:tp=1,pp=4,micro=2,stale"),
            "megatron:tp=1,pp=4,micro=2,stale: delayed updates are impossible with 2 micro-batches "
            "over 4 stages (use micro=4 or more)");
}

}  // namespace
}  // namespace tandem::strategies

#include "search/search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/fewer_test_support.h"
#include "check/replay_parallelization.h"
#include "graph/text.h"
#include "machine/machine.h"
#include "models/model.h"
#include "plan/json.h"
#include "plan/parallelization_derivation.h"
#include "search/neighbours/taso_flexflow.h"
#include "search/pool.h"
#include "search/space/layout_network.h"
#include "strategies/factor_kinds.h"
#include "strategies/grid.h"

namespace tandem::search {
namespace {

using machine::DigitUse;
using machine::Machine;

Machine flat_machine(std::int64_t devices) {
  Machine m = machine::load_machine("summit:1");
  m.name = "flat";
  m.levels = {m.levels.back()};
  m.levels[0].count = devices;
  return m;
}

graph::Graph build(const std::string& model, std::int64_t batch) {
  return models::parse_model(model).build(batch, DType::kFp32);
}

// Returns the factor that all digits of the operator called `name` run along, as its index text
// names it; otherwise "copies", "idle" or "mixed".
std::string format_layout(const Evaluated& plan, const machine::Digits& digits,
                          const std::string& name) {
  const auto& pcg = plan.mapped.pcg;
  const auto nodes = strategies::analyze(pcg);
  for (auto id : pcg.ids()) {
    if (pcg.node(id).name != name) continue;
    std::vector<machine::Layout> layouts;
    for (auto i : pcg.inputs(id)) layouts.push_back(plan.mapped.layouts[i.index()]);
    const auto& s = nodes[id.index()].signature;
    const auto uses = infer_node_layout(s, layouts, digits);
    if (!uses) return "disagree";
    for (std::size_t d = 1; d < layouts[0].count(); ++d) {
      if (uses->uses[d] != uses->uses[0]) return "mixed";
    }
    const auto use = uses->uses[0];
    if (use.is_factor()) return s.map.factors[use.factor()].name;
    return use == DigitUse::kReplica ? "copies" : "idle";
  }
  return "missing";
}

// Checks the layouts of BERT-like layers, which with a batch of one on six GPUs allow no data
// parallelism. The search must find Megatron's strategy: attention by heads, and a column-parallel,
// then row-parallel feed-forward block.
void expect_megatron_matmuls(const Evaluated& plan, const machine::Digits& digits,
                             const std::string& layer) {
  SCOPED_TRACE(layer);
  for (const std::string name : {"q", "k", "v", "scores", "mixed"}) {
    EXPECT_EQ(format_layout(plan, digits, layer + name), "h") << name;
  }
  EXPECT_EQ(format_layout(plan, digits, layer + "probabilities"), "d1");  // the heads
  EXPECT_EQ(format_layout(plan, digits, layer + "ffn1"), "n");
  EXPECT_EQ(format_layout(plan, digits, layer + "ffn_gelu"), "d2");
  EXPECT_EQ(format_layout(plan, digits, layer + "ffn2"), "k");
}

Result search_without_sequence(const graph::Graph& model, const Machine& machine) {
  Options options;
  options.optimizer = plan::Optimizer::kAdam;
  options.dims.sequence = false;  // Unity's dimensions
  auto result = search(model, machine, options);
  EXPECT_TRUE(result.best && result.baselines.size() == 1);
  return result;
}

// With the sequence dimension; without it even Megatron is impossible, since its loss runs along
// the sequence.
TEST(Search, IsNoSlowerThanTheBestBaseline) {
  for (const auto& machine : {flat_machine(6), machine::load_machine("summit:1")}) {
    SCOPED_TRACE(machine.name);
    const auto model = build("bert_large:layers=4,heads=12,hidden=768,ffn=3072", 1);
    Options options;
    options.optimizer = plan::Optimizer::kAdam;
    const auto result = search(model, machine, options);
    ASSERT_TRUE(result.best && result.baselines.size() == 1);
    EXPECT_LE(result.best->simulation.iteration, result.baselines[0].simulation.iteration);
  }
}

// The search finds all of Megatron: a row-parallel output projection, too, and replicated norms.
// The all-reduce after each block is a reduce-scatter and an all-gather around the residual sum.
TEST(Search, FindsMegatronForBertLayersOnSixDevices) {
  const auto model = build("bert_large:layers=4,heads=12,hidden=1536,ffn=6144,seq=2048", 1);
  const auto machine = flat_machine(6);
  const machine::Digits digits(machine);
  const auto result = search_without_sequence(model, machine);
  for (const std::string layer : {"l0.", "l1.", "l2."}) {
    expect_megatron_matmuls(*result.best, digits, layer);
    EXPECT_EQ(format_layout(*result.best, digits, layer + "attention_out"), "h");
    EXPECT_EQ(format_layout(*result.best, digits, layer + "attention_sum"), "d2");
    EXPECT_EQ(format_layout(*result.best, digits, layer + "attention_norm"), "copies");
    EXPECT_EQ(format_layout(*result.best, digits, layer + "ffn_sum"), "d2");
    EXPECT_EQ(format_layout(*result.best, digits, layer + "ffn_norm"), "copies");
  }
}

// Two levels allow a better layout: the output projection is split by heads over sockets and by
// columns over GPUs. The rest is Megatron's.
TEST(Search, ImprovesOnMegatronOnASummitNode) {
  const auto model = build("bert_large:layers=4,heads=12,hidden=768,ffn=3072", 1);
  const auto machine = machine::load_machine("summit:1");
  const machine::Digits digits(machine);
  const auto result = search_without_sequence(model, machine);
  for (const std::string layer : {"l1.", "l2."})
    expect_megatron_matmuls(*result.best, digits, layer);
  EXPECT_LT(result.best->simulation.iteration, result.baselines[0].simulation.iteration);
}

// Without overlap of gradients a pipeline is the fastest here, among many strategies without
// stages.
TEST(Search, FindsPipelinesAmongFasterStrategies) {
  const auto model = models::parse_model("bert_large");
  const auto machine = machine::load_machine("summit:16,software=serial");
  constexpr std::int64_t kBatch = 384;
  Options options;
  options.optimizer = plan::Optimizer::kAdam;
  options.network = {&model, kBatch, DType::kFp32};
  const auto result = search(model.build(kBatch, DType::kFp32), machine, options);
  ASSERT_TRUE(result.best.has_value());
  EXPECT_GT(result.best->mapped.schedule.stages, 1);
}

struct Case {
  const char* model;
  std::int64_t batch;
  const char* machine;
};

TEST(Search, IsNeverWorseThanABaselineAndNeverBelowItsBound) {
  for (const auto& c :
       {Case{"mlp:layers=4", 96, "summit:8"}, Case{"mlp:layers=4", 64, "local:2"},
        Case{"bert_large:layers=3", 192, "summit:8"}, Case{"bert_large:layers=3", 8, "local:2"},
        Case{"dlrm:tables=4", 49152, "summit:8"}, Case{"dlrm:tables=4", 2048, "local:2"}}) {
    SCOPED_TRACE(std::string(c.model) + " on " + c.machine);
    const auto result = search(build(c.model, c.batch), machine::load_machine(c.machine), {});
    ASSERT_TRUE(result.best.has_value());
    ASSERT_TRUE(result.lower_bound.has_value());
    EXPECT_GT(result.lower_bound->value, 0);
    EXPECT_LE(*result.lower_bound, result.best->simulation.iteration * 1.000001);
    for (const auto& b : result.baselines) {
      if (!b.feasible) continue;
      EXPECT_GE(b.simulation.iteration * 1.000001, *result.lower_bound) << b.name;
      EXPECT_LE(result.best->simulation.iteration, b.simulation.iteration) << b.name;
    }
  }
}

// More states can only lower the bound, and the layouts of baselines are always retained.
TEST(Search, LowersTheBoundWithMoreStates) {
  const auto model = build("bert_large:layers=2", 192);
  const auto machine = machine::load_machine("summit:4");
  Options options;
  options.states_per_node = 32;
  const auto few = search(model, machine, options);
  options.states_per_node = 200;
  const auto many = search(model, machine, options);
  EXPECT_LE(many.lower_bound->value, few.lower_bound->value * 1.0001);
  for (const auto& b : many.baselines) EXPECT_LE(*many.lower_bound, b.simulation.iteration);
}

TEST(Search, ShardsDlrmTablesAndReplicatesItsMlps) {
  const auto machine = machine::load_machine("summit:8");
  const machine::Digits digits(machine);
  const auto result = search(build("dlrm", 49152), machine, {});
  ASSERT_TRUE(result.best.has_value());
  EXPECT_EQ(format_layout(*result.best, digits, "bottom1"), "d0");
  EXPECT_EQ(format_layout(*result.best, digits, "top1"), "d0");
  EXPECT_NE(format_layout(*result.best, digits, "bag0"), "copies");
  // A table has 256 MB. A device must store far less than a replica of each.
  EXPECT_LT(result.best->simulation.persistent.value, 26 * 256e6 / 10);
}

TEST(Search, FitsInMemoryOrReportsThatNothingFits) {
  const auto model = build("mlp:layers=4", 64);
  const auto machine = machine::load_machine("local:4");
  Options options;
  const auto free = search(model, machine, options);
  ASSERT_TRUE(free.best.has_value());
  options.memory = free.best->simulation.memory * 0.9;
  const auto tight = search(model, machine, options);
  if (tight.best) {
    EXPECT_LE(tight.best->simulation.memory, *options.memory);
    EXPECT_GE(tight.best->simulation.iteration, free.best->simulation.iteration);
  }
  options.memory = Bytes{1000};
  const auto none = search(model, machine, options);
  EXPECT_FALSE(none.best.has_value());
  EXPECT_GT(none.smallest.simulation.memory.value, 1000);
}

// Simulating a hundred layers with the many micro-batches that need the least memory takes seconds.
TEST(Search, ReportsFromEstimatesThatALargeModelDoesNotFit) {
  const auto known = models::parse_model("gpt3_175b");
  const auto model = known.build(64, DType::kFp32);
  const auto machine = machine::load_machine("dgx_a100:1");
  Options options;
  options.optimizer = plan::Optimizer::kAdam;
  options.network = KnownNetwork{&known, 64, DType::kFp32};
  const auto estimated = search(model, machine, options);
  EXPECT_FALSE(estimated.best.has_value());
  EXPECT_EQ(estimated.candidates, 0U);
  options.network.reset();
  const auto simulated = search(model, machine, options);
  EXPECT_GT(simulated.candidates, 0U);
  EXPECT_LE(estimated.smallest.over.value, 1.01 * simulated.smallest.over.value);
}

// A pipeline fits, but takes four times as long as layouts that need more memory. Layouts that save
// memory must then be searched, even for a large network.
TEST(Search, SavesMemoryInLayoutsIfFittingStrategiesAreSlow) {
  if (kFewer > 1) GTEST_SKIP() << "takes long";
  const auto known = models::parse_model("nasnet_a");
  const auto model = known.build(192, DType::kFp32);
  Options options;
  options.algebra = RewriteSearch::kNone;
  options.network = KnownNetwork{&known, 192, DType::kFp32};
  const auto result = search(model, machine::load_machine("summit:1"), options);
  ASSERT_TRUE(result.best.has_value());
  const auto dp = std::ranges::find(result.baselines, "dp", &Evaluated::family);
  EXPECT_FALSE(dp->feasible);
  EXPECT_LT(result.best->simulation.iteration, 1.2 * dp->simulation.iteration);
}

// The first stage of two has the large weight, whichever group's device comes first.
TEST(MemoryLimits, BindEachGroup) {
  const auto machine = [](const std::vector<std::string>& order) {
    auto m = flat_machine(2);
    for (const auto& name : order) {
      auto device = m.device;
      device.reserve = Bytes{};
      device.memory = Bytes{name == "small" ? 300e3 : 2e6};
      m.groups.push_back({name, device, 1});
    }
    m.device = machine::make_weakest_device(m.groups);
    return m;
  };
  const auto model = build("mlp:layers=2,inputs=512,hidden=128,outputs=128", 8);
  const auto find_cost = [&](const Machine& m) {
    const auto s = strategies::make_named_strategies("megatron:tp=1,pp=2,micro=1", model,
                                                     machine::Digits(m))[0];
    return cost_choices(model, m, s.name, s.choices, s.schedule, plan::Optimizer::kSgd,
                        compute_memory_limits(m, {}));
  };
  const auto fits = machine({"big", "small"});
  EXPECT_EQ(compute_memory_limits(fits, {}), (std::vector{Bytes{2e6}, Bytes{300e3}}));
  const auto good = find_cost(fits);
  EXPECT_TRUE(good.feasible);
  EXPECT_GT(good.simulation.memory, Bytes{300e3});
  const auto fails = machine({"small", "big"});
  const auto bad = find_cost(fails);
  EXPECT_FALSE(bad.feasible);
  const auto tight = find_tightest(bad.simulation, compute_memory_limits(fails, {}));
  EXPECT_EQ(tight.group, 0U);
  EXPECT_EQ(bad.over, tight.needs.peak - Bytes{300e3});
  EXPECT_EQ(tight.needs.persistent, Bytes{512 * 128 * 4});
  EXPECT_TRUE(format_shortage(tight, fails).ends_with("per device of group 'small', limit 300 kB"))
      << format_shortage(tight, fails);
  EXPECT_TRUE(is_better(good, bad));
  // --memory applies to all groups.
  Options options;
  options.memory = Bytes{1e3};
  EXPECT_EQ(compute_memory_limits(fits, options.memory), (std::vector{Bytes{1e3}, Bytes{1e3}}));
}

TEST(Search, ReportsItsProgress) {
  std::vector<double> best;
  Options options;
  options.progress = [&](const SearchProgress& now) {
    EXPECT_EQ(now.candidates, best.size() + 1);
    best.push_back(now.best ? now.best->value : 1e30);
  };
  const auto result = search(build("mlp:layers=4", 64), machine::load_machine("local:4"), options);
  ASSERT_EQ(best.size(), result.candidates);
  EXPECT_TRUE(std::ranges::is_sorted(best, std::greater{}));
  EXPECT_EQ(best.back(), result.best->simulation.iteration.value);
}

TEST(Search, IsDeterministic) {
  const auto model = build("bert_large:layers=2", 48);
  const auto machine = machine::load_machine("summit:8");
  const auto text = [&] {
    const auto result = search(model, machine, {});
    plan::Plan plan{.model = "bert",
                    .machine = "summit:8",
                    .strategy = "search",
                    .mapped = result.best->mapped,
                    .iteration = {},
                    .memory = {}};
    return plan::to_json(plan);
  };
  EXPECT_EQ(text(), text());
}

TEST(Search, UsesOnlyAllowedDimensions) {
  Options options;
  options.dims = {.data = true,
                  .model = false,
                  .reduction = false,
                  .head = false,
                  .sequence = false,
                  .pipeline = false};
  const auto machine = machine::load_machine("summit:8");
  const machine::Digits digits(machine);
  const auto result = search(build("mlp:layers=4", 12288), machine, options);
  ASSERT_TRUE(result.best.has_value());
  EXPECT_EQ(format_layout(*result.best, digits, "linear2"), "d0");
}

// One large image is divided by rows or columns, and devices exchange a row at each border.
TEST(Search, PartitionsALargeImage) {
  const auto model = graph::parse_graph(
      "graph g\n%x = input() shape=[1, 8, 512, 512]\n%w1 = weight() shape=[8, 8, 3, 3]\n"
      "%w2 = weight() shape=[8, 8, 3, 3]\n%t = input() shape=[1, 8, 512, 512]\n"
      "%conv1 = conv2d(%x, %w1) padding=[1, 1]\n%relu1 = relu(%conv1)\n"
      "%conv2 = conv2d(%relu1, %w2) padding=[1, 1]\n%loss = mse(%conv2, %t)\nreturn %loss\n");
  const auto machine = flat_machine(4);
  const machine::Digits digits(machine);
  Options options;
  const auto best = search(model, machine, options).best;
  options.dims.spatial = false;
  const auto other = search(model, machine, options).best;
  ASSERT_TRUE(best.has_value() && other.has_value());
  for (const auto* conv : {"conv1", "conv2"}) {
    const auto use = format_layout(*best, digits, conv);
    EXPECT_TRUE(use == "y" || use == "x") << use;
    EXPECT_NE(format_layout(*other, digits, conv), use);
  }
  EXPECT_LT(best->simulation.iteration, other->simulation.iteration);
}

// In plans that divide images or concatenations, each operator and each resharding has steps of
// proved rules. Nothing is checked by values alone.
TEST(Search, DerivesPlansOfImagesAndConcatenationsCompletely) {
  struct Case {
    std::string model;
    std::int64_t batch;
    std::string machine;
    std::string rule;  // a rule among those used
  };
  for (const auto& c : {Case{"resnet50:image=64", 2, "local:4", "parallelize-conv2d-over-rows"},
                        Case{"xdl:rows=1000", 12288, "summit:2", "parallelize-concat-4"}}) {
    SCOPED_TRACE(c.model);
    const auto machine = machine::load_machine(c.machine);
    Options options;
    options.dims = {.model = false, .reduction = false, .head = false, .pipeline = false};
    const auto best = search(build(c.model, c.batch), machine, options).best;
    ASSERT_TRUE(best.has_value());
    const auto steps = plan::find_parallelization(best->mapped, machine::Digits(machine));
    const auto shown = check::replay_parallelization(best->mapped.pcg, steps);
    EXPECT_EQ(shown.cuts.without, std::vector<std::string>{});
    EXPECT_EQ(shown.paths.without, std::vector<std::string>{});
    EXPECT_TRUE(shown.cuts.rules.contains(c.rule));
  }
}

// Enumerates every assignment of the states of a chain, and costs it edge by edge without tables or
// elimination.
TEST(LayoutNetwork, EqualsEnumerationOnASmallChain) {
  const auto model = build("mlp:layers=2,hidden=64,inputs=32,outputs=16", 8);
  Machine machine = machine::load_machine("summit:2");
  machine.levels = {machine.levels[0], machine.levels[1]};  // digits 2 and 2
  const machine::Digits digits(machine);
  const Dims dims;
  predict::CostModel costs(machine, digits, plan::Optimizer::kSgd);
  const LayoutNetwork network(model, digits, costs, dims, 10000, {});
  const auto nodes = strategies::analyze(model);
  std::vector<graph::NodeId> chain;
  for (auto id : model.ids()) {
    if (model.node(id).op.role() == ops::Role::kCompute) chain.push_back(id);
  }
  const predict::Prices prices{.async = 0.7};

  // best[s]: the least cost of the chain up to the last operator so far, in its state s.
  const auto has_gradient = graph::mark_gradient_nodes(model);
  std::vector<double> best;
  std::vector<machine::NodeLayout> before;
  for (std::size_t c = 0; c < chain.size(); ++c) {
    const auto& s = nodes[chain[c].index()].signature;
    const auto inputs = model.inputs(chain[c]);
    const auto states = list_node_layouts(nodes[chain[c].index()], digits, dims);
    std::vector<double> next;
    for (const auto& state : states) {
      const auto types = model.input_types(chain[c]);
      ops::InputMask differentiated = 0;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (has_gradient[inputs[i].index()]) differentiated |= ops::InputMask{1} << i;
      }
      double own = prices.price(costs.operator_cost(
          model.node(chain[c]).op, s, types, model.node(chain[c]).type, state, differentiated));
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto& source = model.node(inputs[i]);
        if (is_weight(source)) {
          own += prices.price(costs.weight_cost(source.type.shape.sizes, DType::kFp32,
                                                compute_input_layout(s, state, digits.count(), i)));
        }
      }
      double reached = c == 0 ? 0 : 1e30;
      for (std::size_t p = 0; p < before.size(); ++p) {
        const auto& producer = nodes[chain[c - 1].index()].signature;
        const auto move = costs.reshard_cost(
            model.node(chain[c - 1]).type,
            compute_output_layout(producer, before[p], digits.count()),
            compute_input_layout(s, state, digits.count(), 0), DType::kFp32, true);
        reached = std::min(reached, best[p] + prices.price(move));
      }
      next.push_back(reached + own);
    }
    best = next;
    before = states;
  }
  const double expected = *std::ranges::min_element(best);
  EXPECT_NEAR(network.solve(prices).cost, expected, 1e-5 * expected);
}

// The model does not fit without recomputation and is slower with full recomputation. Partial
// recomputation fits.
TEST(Search, SavesMemoryOperatorByOperator) {
  const auto known = models::parse_model("gpt2:layers=4");
  const auto machine = machine::load_machine("dgx_a100:1");
  Options options;
  options.optimizer = plan::Optimizer::kAdam;
  options.network = KnownNetwork{&known, 64, DType::kFp32};
  options.memory = Bytes{0.6e9};
  options.dims.pipeline = false;
  const auto result = search(known.build(64, DType::kFp32), machine, options);
  ASSERT_TRUE(result.best.has_value());
  EXPECT_LE(result.best->over, Bytes{0});
  const auto& recompute = result.best->mapped.recompute;
  EXPECT_NE(std::ranges::find(recompute, true), recompute.end());
  EXPECT_NE(std::ranges::find(recompute, false), recompute.end());
}

// Without recomputation of layers it does not fit. Full recomputation is more than needed. The plan
// recomputes as much as necessary, in the first layers.
TEST(Search, RecomputesAsLittleAsNecessary) {
  const auto network = models::parse_model("llama3_8b:layers=8");
  const auto machine = machine::load_machine("dgx_a100:1");
  constexpr std::int64_t kBatch = 8;
  const auto model = network.build(kBatch, DType::kBf16);
  const machine::Digits digits(machine);
  const strategies::Problem problem(model, digits);
  Options options;
  options.optimizer = plan::Optimizer::kAdam;
  CandidatePool pool(model, machine, options);
  const auto cost = [&](const char* setting) {
    const auto made = make_strategies({strategies::parse_setting(setting)}, problem).at(0);
    return pool.enter({{made.name, made.choices, made.schedule}})[0].value();
  };
  const auto none = cost("fsdp");
  const auto full = cost("fsdp:recompute=full");
  options.memory = (none.simulation.memory + full.simulation.memory) / 2;

  options.network = {&network, kBatch, DType::kBf16};
  options.dims = {.model = false,
                  .spatial = false,
                  .reduction = false,
                  .head = false,
                  .expert = false,
                  .sequence = false,
                  .pipeline = false};
  const auto result = search(model, machine, options);
  ASSERT_TRUE(result.best.has_value());
  const auto& best = *result.best;
  EXPECT_LT(best.simulation.memory, *options.memory);
  EXPECT_GT(best.simulation.memory, 0.97 * *options.memory);
  EXPECT_LT(best.simulation.iteration, full.simulation.iteration);
  EXPECT_GT(best.simulation.iteration, none.simulation.iteration);
}

// No layout of weights and activations fits, but recomputation or micro-batches do. They are
// searched if the graph is an unchanged network.
TEST(Search, FitsByRecomputation) {
  const auto network = models::parse_model("gpt2:layers=4");
  const auto machine = machine::load_machine("dgx_a100:1");
  constexpr std::int64_t kBatch = 64;
  const auto model = network.build(kBatch, DType::kFp32);
  Options options;
  options.optimizer = plan::Optimizer::kAdam;
  const auto roomy = search(model, machine, options);
  options.memory = (roomy.limits[0] + roomy.smallest.over) * 0.6;
  options.network = {&network, kBatch, DType::kFp32};
  const auto result = search(model, machine, options);
  ASSERT_TRUE(result.best.has_value());
  EXPECT_LE(result.best->over, Bytes{0});
  EXPECT_GT(result.estimated, 100U);
  options.dims.pipeline = false;
  const auto flat = search(model, machine, options);
  ASSERT_TRUE(flat.best.has_value());
  EXPECT_EQ(flat.best->mapped.schedule.stages, 1);
}

// If a model is too large, the search reports by how much. With that much more memory there is a
// plan. The reported need does not depend on the limit.
TEST(Search, ReportsTheMemoryThatIsNeeded) {
  const auto model = build("resnet50:image=64", 16);
  const auto machine = machine::load_machine("dgx_v100:1");
  Options options;
  options.algebra = RewriteSearch::kJoint;
  const auto roomy = search(model, machine, options);
  std::optional<Bytes> least;
  for (const double share : {0.02, 0.05, 0.08}) {
    options.memory = share * roomy.best->simulation.memory;
    const auto result = search(model, machine, options);
    ASSERT_FALSE(result.best.has_value()) << share;
    const auto needs = *options.memory + result.smallest.over;
    EXPECT_EQ(needs, least.value_or(needs)) << share;
    least = needs;
  }
  options.memory = *least;
  EXPECT_TRUE(search(model, machine, options).best.has_value());
  options.memory = 1.05 * *least;
  EXPECT_TRUE(search(model, machine, options).best.has_value());
}

// A way to save memory may also be faster, if it is overlapped.
TEST(Search, IsNoSlowerWithMoreMemory) {
  const auto network = models::parse_model("gpt2:layers=4");
  const auto model = network.build(16, DType::kBf16);
  const auto machine = machine::load_machine("dgx_a100:1");
  Options options;
  options.optimizer = plan::Optimizer::kAdam;
  options.algebra = RewriteSearch::kJoint;
  options.network = {&network, 16, DType::kBf16};
  const auto roomy = search(model, machine, options);
  ASSERT_TRUE(roomy.best.has_value());
  for (const double memory : {956272258.0, 0.95 * roomy.best->simulation.memory.value}) {
    options.memory = Bytes{memory};
    const auto tight = search(model, machine, options);
    ASSERT_TRUE(tight.best.has_value());
    EXPECT_GE(tight.best->simulation.iteration.value,
              roomy.best->simulation.iteration.value * (1 - 1e-9));
  }
}

// Cost tables do not model overlap: a walk over fewer dimensions was 0.2 % faster here.
TEST(Search, IsNoSlowerThanTasoAndFlexFlow) {
  const auto machine = machine::load_machine("summit:2");
  const auto graph = models::parse_model("candle_uno").build(3072, DType::kFp32);
  Options options;
  options.algebra = RewriteSearch::kJoint;
  const auto plan = search(graph, machine, options);
  const auto other = search_taso_flexflow(graph, machine, {});
  ASSERT_TRUE(plan.best.has_value());
  EXPECT_LE(plan.best->simulation.iteration.value, other.simulation.iteration.value * (1 + 1e-9));
}

}  // namespace
}  // namespace tandem::search

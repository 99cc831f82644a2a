// Checks the whole search: its plans compute what their models do, splitting a chain finds what the
// whole graph has, and the stop reason is reported.
#include "unity/unity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "check/check.h"
#include "graph/text.h"
#include "models/model.h"
#include "ops/attributes.h"
#include "ops/registry.h"
#include "strategies/strategies.h"
#include "unity/splitting.h"

namespace tandem::unity {
namespace {

struct Case {
  Case(const std::string& name, std::int64_t batch, const std::string& machine_name)
      : model_name(name),
        machine_text(machine_name),
        machine(machine::load_machine(machine_name)),
        model(models::parse_model(name)),
        graph(model.build(batch, DType::kFp32)) {
    how.network = {&model, batch, DType::kFp32};
  }

  search::Result find(UnityOptions options = {}) {
    options.piece_candidates = std::min<std::size_t>(options.piece_candidates, 3000);
    return unity::search(graph, machine, how, options);
  }

  std::string model_name;
  std::string machine_text;
  machine::Machine machine;
  models::ConfiguredModel model;
  graph::Graph graph;
  search::Options how;
};

// Returns the search's own result: the plan, or its row if a baseline is faster.
const search::Evaluated& get_unity_plan(const search::Result& result) {
  if (result.best && result.best->name.starts_with("search:unity")) return *result.best;
  for (const auto& row : result.baselines) {
    if (row.family == "unity") return row;
  }
  ADD_FAILURE() << "no plan of its own";
  return result.smallest;
}

check::Report check_plan(const Case& of, const search::Evaluated& costed) {
  const auto* rewritten = costed.rewritten.get();
  plan::Plan plan{.model = of.model_name,
                  .machine = of.machine_text,
                  .strategy = costed.name,
                  .mapped = costed.mapped,
                  .iteration = {},
                  .memory = {}};
  if (rewritten != nullptr) {
    plan.derivation = rewritten->derivation;
    plan.rules = rewritten->rules;
  }
  return check::check_plan(plan, plan::make_digits(plan, of.machine), of.graph);
}

TEST(Unity, PreservesTheModel) {
  for (const char* name : {"mlp:layers=3,hidden=768,inputs=384,outputs=96",
                           "bert_large:layers=1,hidden=96,heads=12,vocab=384,seq=24",
                           "dlrm:variant=artifact", "candle_uno"}) {
    Case of(name, 96, "summit:1");
    const auto result = of.find({.candidates = 4000});
    ASSERT_TRUE(result.best.has_value()) << name;
    const auto report = check_plan(of, get_unity_plan(result));
    EXPECT_TRUE(report.ok) << name << ": " << report.where << ": " << report.message;
    EXPECT_EQ(report.unproved.size(), 0U) << name;
    for (const auto& row : result.baselines) {
      if (row.feasible) {
        EXPECT_LE(result.best->simulation.iteration, row.simulation.iteration) << name;
      }
    }
  }
}

TEST(Unity, PipelinesAllOperators) {
  for (const bool delayed : {false, true}) {
    Case of("bert_large:layers=4,hidden=48,heads=6,vocab=96,seq=12", 24, "summit:1");
    if (delayed) of.how.semantics = plan::Semantics::kDelayed1;
    const auto result = of.find({.candidates = 2000, .pipelines = true});
    ASSERT_TRUE(result.best.has_value());
    const auto& found = get_unity_plan(result);
    const auto report = check_plan(of, found);
    EXPECT_TRUE(report.ok) << report.where << ": " << report.message;
    const auto& mapped = found.mapped;
    EXPECT_EQ(mapped.schedule.is_delayed(), delayed);
    EXPECT_TRUE(!delayed || mapped.schedule.stages > 1) << found.name;
    std::set<std::uint16_t> stages;
    for (auto id : mapped.pcg.ids()) {
      if (mapped.pcg.node(id).op.role() != ops::Role::kCompute) continue;
      const auto stage = mapped.stage.empty() ? std::uint16_t{0} : mapped.stage[id.index()];
      stages.insert(stage);
      for (auto input : mapped.pcg.inputs(id)) {
        if (mapped.pcg.node(input).op.role() == ops::Role::kSource || mapped.stage.empty())
          continue;
        EXPECT_LE(mapped.stage[input.index()], stage);
        EXPECT_LE(stage, mapped.stage[input.index()] + 1);
      }
    }
    EXPECT_EQ(static_cast<std::int64_t>(stages.size()), mapped.schedule.stages);
  }
}

// The search starts from known strategies that rules reach, so its result is no slower.
// Column-parallel and row-parallel only gain together, and so do embedding tables that are all
// split the same way.
TEST(Unity, IsNoSlowerThanItsInitialCandidates) {
  for (const auto& [name, batch, strategies] :
       {std::tuple("mlp:layers=4", 1536, std::vector<std::string>{"dp", "megatron", "expert"}),
        std::tuple("dlrm", 6144, std::vector<std::string>{"dp", "megatron", "dlrm_hybrid"})}) {
    Case of(name, batch, "summit:1");
    const auto result = of.find({.candidates = 6000});
    const auto own = get_unity_plan(result).simulation.iteration;
    for (const auto& row : result.baselines) {
      if (std::ranges::find(strategies, row.family) == strategies.end()) continue;
      EXPECT_LE(own.value, row.simulation.iteration.value * (1 + 1e-9)) << name << " " << row.name;
    }
    const auto report = check_plan(of, get_unity_plan(result));
    EXPECT_TRUE(report.ok) << name << ": " << report.where << ": " << report.message;
  }
}

TEST(Unity, PartitionsByRulesLikeAStrategy) {
  Case of("mlp:layers=2,hidden=96,inputs=96,outputs=96", 96, "summit:1");
  const machine::Digits digits(of.machine);
  predict::CostModel costs(of.machine, digits, plan::Optimizer::kSgd);
  Placements placements(digits, costs);
  Substitutions substitutions(placements, {});
  const strategies::Problem problem(of.graph, digits);
  const auto made = strategies::make_megatron(problem, {.tensor = 1});
  const auto& choices = std::get<strategies::Choices>(made);
  const auto seeds = make_initial_layouts(std::vector{choices, choices}, digits);
  ASSERT_EQ(seeds.size(), 1U);
  EXPECT_TRUE(substitutions.can_reach(of.graph, seeds[0]));
  const auto own = make_choices(of.graph, seeds[0], digits);
  for (auto id : of.graph.ids()) {
    if (of.graph.node(id).op.role() == ops::Role::kSource) continue;
    EXPECT_EQ(own[id.index()].node, seeds[0][id.index()]);
  }
}

// Plans with parallel branches on parts of the machine are deterministic, too.
TEST(Unity, IsDeterministic) {
  Case of("mlp:layers=5,hidden=1536,inputs=768,outputs=96", 96, "summit:1");
  const auto first = of.find({.least_nodes = 4});
  const auto second = of.find({.least_nodes = 4});
  EXPECT_EQ(first.rewrites, second.rewrites);
  EXPECT_EQ(get_unity_plan(first).simulation.iteration,
            get_unity_plan(second).simulation.iteration);
  EXPECT_EQ(get_unity_plan(first).mapped.layouts, get_unity_plan(second).mapped.layouts);
}

TEST(Unity, ReportsWhyItStops) {
  Case of("mlp:layers=5,hidden=1536,inputs=768,outputs=96", 96, "summit:1");
  const auto few = of.find({.candidates = 50});
  EXPECT_EQ(few.stop_reason, search::StopReason::kCandidates);
  EXPECT_EQ(few.rewrites, 50U);
  of.how.until.seconds = 1e-9;
  EXPECT_EQ(of.find().stop_reason, search::StopReason::kBudget);
  of.how.until = {.interrupted = [] { return true; }};
  EXPECT_EQ(of.find().stop_reason, search::StopReason::kInterrupted);
}

// The number of costed graphs shows what the search has done.
TEST(Unity, UsesEachOption) {
  Case of("mlp:layers=4,hidden=1536,inputs=768,outputs=96", 96, "summit:1");
  const auto usual = of.find();
  EXPECT_LT(of.find({.alpha = 1}).rewrites, usual.rewrites);
  EXPECT_GT(of.find({.alpha = 2}).rewrites, usual.rewrites);
  EXPECT_LT(of.find({.piece_candidates = 20}).rewrites, usual.rewrites);
  const auto small = of.find({.least_nodes = 3});
  EXPECT_NE(small.rewrites, usual.rewrites);
  EXPECT_NE(of.find({.least_nodes = 3, .splits = false}).rewrites, small.rewrites);
  // Without the cache the search finds the same result, later.
  const auto forgetful = of.find({.caches = false});
  EXPECT_EQ(forgetful.rewrites, usual.rewrites);
  EXPECT_EQ(get_unity_plan(forgetful).simulation.iteration,
            get_unity_plan(usual).simulation.iteration);
}

TEST(Unity, SplitsAtBottlenecksIntoLargeEnoughPieces) {
  const auto graph = models::parse_model("resnext50").build(96, DType::kFp32);
  const auto machine = machine::load_machine("summit:1");
  const machine::Digits digits(machine);
  predict::CostModel costs(machine, digits, plan::Optimizer::kSgd);
  Placements placements(digits, costs);
  Substitutions substitutions(placements, {});
  const auto cuts = find_cuts(graph, 10, substitutions);
  EXPECT_GE(cuts.size(), 10U);
  const auto users = graph.consumers();
  for (std::size_t c = 0; c < cuts.size(); ++c) {
    // Everything computed from earlier operators passes through the cut.
    std::vector<bool> before(graph.size());
    std::vector<graph::NodeId> stack = {cuts[c]};
    std::size_t operators = 0;
    while (!stack.empty()) {
      const auto id = stack.back();
      stack.pop_back();
      if (before[id.index()]) continue;
      before[id.index()] = true;
      operators += graph.node(id).op.role() == ops::Role::kCompute ? 1U : 0U;
      for (auto input : graph.inputs(id)) stack.push_back(input);
    }
    EXPECT_GE(operators, 10 * (c + 1));
    for (auto id : graph.ids()) {
      if (!before[id.index()] || id == cuts[c]) continue;
      for (auto user : users[id.index()]) EXPECT_TRUE(before[user.index()]);
    }
  }
}

TEST(Unity, ListsBorderDegreesOfEveryDimension) {
  const auto states = list_border_states({12, 4, 9}, 6, 100);
  std::set<std::vector<std::int64_t>> found;
  for (const auto& s : states) found.insert({s.begin(), s.end()});
  std::set<std::vector<std::int64_t>> expected;
  for (std::int64_t a : {1, 2, 3, 6}) {
    for (std::int64_t b : {1, 2}) {
      for (std::int64_t c : {1, 3}) {
        if (6 % (a * b * c) == 0) expected.insert({a, b, c});
      }
    }
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(found.size(), states.size());
  EXPECT_EQ(states[0], (Shape{1, 1, 1}));
  EXPECT_EQ(list_border_states({12, 4, 9}, 6, 3).size(), 3U);
}

struct OnTwoDevices {
  machine::Machine machine = machine::load_machine("local:2");
  machine::Digits digits{machine};
  predict::CostModel costs{machine, digits, plan::Optimizer::kSgd};
  Placements placements{digits, costs};
  Substitutions substitutions{placements, {}};
};

// Returns the total cost of a graph's pieces over all rewrites on two devices.
double cost_in_pieces(const graph::Graph& graph, std::size_t least_nodes) {
  OnTwoDevices here;
  auto& substitutions = here.substitutions;
  const Substitution all{.alpha = 3, .candidates = 50'000, .patience = 50'000};
  const auto solved = solve_in_pieces(graph, least_nodes, all, substitutions);
  EXPECT_EQ(solved.pieces.size() > 1, least_nodes < 10);
  const auto made = to_plan(graph, solved.pieces, substitutions);
  EXPECT_TRUE(made.has_value());
  return made ? made->seconds : kImpossible;
}

TEST(Unity, FindsTheSamePlanBySplitting) {
  for (const auto& [name, batch] :
       {std::pair("mlp:layers=2,hidden=64,inputs=64,outputs=64", 4096),
        std::pair("mlp:layers=2,hidden=4096,inputs=64,outputs=64", 64),
        std::pair("mlp:layers=2,hidden=2048,inputs=2048,outputs=16", 32)}) {
    const auto graph = models::parse_model(name).build(batch, DType::kFp32);
    const auto whole = cost_in_pieces(graph, 10);
    EXPECT_NEAR(cost_in_pieces(graph, 2), whole, 1e-9 * whole) << name;
  }
}

double cost_of_piece(const PieceSolution& solved, Substitutions& substitutions) {
  TaskGraphBuilder builder(substitutions.dictionary(), substitutions.placements());
  const auto draft = substitutions.replay_steps(solved.piece, solved.steps).back();
  const auto tasks =
      builder.build_for_piece(draft, solved.piece.border, solved.piece.has_border_output);
  return substitutions.mapping().cost(tasks);
}

// The second of two matmuls is summed over devices before a border. The next layer's first matmul
// needs the sum replicated. After joining the pieces, this is one all-reduce.
TEST(Unity, MergesCollectivesAtABorder) {
  const auto graph = models::parse_model("mlp:layers=4,hidden=4096,inputs=4096,outputs=4096")
                         .build(64, DType::kFp32);
  OnTwoDevices here;
  auto& substitutions = here.substitutions;
  const Substitution how{.alpha = 1.5, .candidates = 20'000, .patience = 2'000};
  const auto solved = solve_in_pieces(graph, 4, how, substitutions);
  ASSERT_GT(solved.pieces.size(), 1U);
  double apart = 0;
  for (const auto& piece : solved.pieces) {
    apart += cost_of_piece(piece, substitutions);
    // A border is a degree for each dimension, without replicas or partial sums.
    const auto draft = substitutions.replay_steps(piece.piece, piece.steps).back();
    const auto get_type = [&](rewrite::Slot slot) {
      return substitutions.dictionary().type(draft.node(slot).type).shape;
    };
    if (piece.piece.has_border_output) {
      EXPECT_EQ(get_type(draft.outputs()[0]).replicas, 1);
      EXPECT_EQ(get_type(draft.outputs()[0]).partial, 1);
    }
    if (piece.piece.border) {
      const auto& border = piece.piece.graph.node(piece.piece.border->input).type.shape;
      EXPECT_EQ(border.replicas, 1);
      EXPECT_EQ(border.partial, 1);
    }
  }
  const auto made = to_plan(graph, solved.pieces, substitutions);
  ASSERT_TRUE(made.has_value());
  EXPECT_LT(made->seconds, apart);
}

// Every Megatron layer ends in a partial sum and begins replicated. A piece by itself ends the sum
// at its border, and the next one replicates there. Joined, this is one all-reduce and is costed as
// one.
TEST(Unity, MergesReductionsAndReplicationsAtABorderIntoAnAllReduce) {
  const auto graph = graph::parse_graph(R"(graph blocks
%x = input() shape=[64, 4096]
%w1 = weight() shape=[4096, 4096]
%linear1 = linear(%x, %w1)
%relu1 = relu(%linear1)
%w2 = weight() shape=[4096, 4096]
%linear2 = linear(%relu1, %w2)
%w3 = weight() shape=[4096, 4096]
%linear3 = linear(%linear2, %w3)
%relu3 = relu(%linear3)
%w4 = weight() shape=[4096, 4096]
%linear4 = linear(%relu3, %w4)
%t = input() shape=[64, 4096]
%loss = mse(%linear4, %t)
return %loss
)");
  OnTwoDevices here;
  auto& substitutions = here.substitutions;
  const strategies::Problem problem(graph, here.digits);
  const auto choices =
      std::get<strategies::Choices>(strategies::make_megatron(problem, {.tensor = 1}));
  const auto seeds = make_initial_layouts(std::vector<strategies::Choices>{choices}, here.digits);
  // Enough for the strategy itself, but not for further rewrites.
  const Substitution how{
      .alpha = 1, .initial_layouts = seeds, .only_initial_layouts = true, .candidates = 2};
  const auto solved = solve_in_pieces(graph, 3, how, substitutions);
  ASSERT_GT(solved.pieces.size(), 1U);
  double apart = 0;
  for (const auto& piece : solved.pieces) apart += cost_of_piece(piece, substitutions);
  const auto made = to_plan(graph, solved.pieces, substitutions);
  ASSERT_TRUE(made.has_value());
  EXPECT_LT(made->seconds, apart);
  const auto& model = made->rewritten ? made->rewritten->graph : graph;
  const auto pcg = plan::parallelize(model, here.digits, made->choices).pcg;
  const auto is_all_reduce = [&](graph::NodeId id) {
    return pcg.node(id).op.is(ops::kReplicate) && pcg.node(pcg.inputs(id)[0]).op.is(ops::kReduce);
  };
  EXPECT_GE(std::ranges::count_if(pcg.ids(), is_all_reduce), 1) << graph::to_text(pcg);
}

// Each device has some rows of an image, and one row of its neighbours.
TEST(Unity, PartitionsImageRowsByARule) {
  graph::GraphBuilder b("image");
  const auto x = b.input("x", {2, 4, 8, 8}, DType::kFp32);
  const auto w = b.weight("w", {4, 4, 3, 3}, DType::kFp32);
  const auto y = b.add(ops::make_op(ops::kConv2d, ops::Conv2d{.padding = {1, 1}}), {x, w});
  const auto graph = b.finish({b.add(ops::kMse, {y, b.input("t", {2, 4, 8, 8}, DType::kFp32)})});
  OnTwoDevices here;
  auto& substitutions = here.substitutions;
  PieceSolution whole{{graph}, {}, {}};
  for (auto id : graph.ids()) whole.model_node.push_back(id);
  const auto draft = rewrite::Draft::from_graph(graph, substitutions.dictionary());
  const auto& rules = substitutions.rules();
  for (const auto& match : rewrite::Matches::find(rules, draft).all()) {
    if (rules.rules()[match.rule].name == "parallelize-conv2d-over-rows") whole.steps = {match};
  }
  ASSERT_EQ(whole.steps.size(), 1U);
  const auto made = to_plan(graph, {whole}, substitutions);
  ASSERT_TRUE(made.has_value());
  const auto mapped = plan::parallelize(graph, here.digits, made->choices);
  bool has_rows = false;
  for (auto id : mapped.pcg.ids()) {
    const auto& node = mapped.pcg.node(id);
    has_rows = has_rows || (node.op.is(ops::kConv2d) && node.type.shape.degrees[2] == 2);
  }
  EXPECT_TRUE(has_rows);
  const plan::Plan plan{.model = "image",
                        .machine = "local:2",
                        .strategy = "",
                        .mapped = mapped,
                        .iteration = {},
                        .memory = {}};
  const auto report = check::check_plan(plan, here.digits, graph);
  EXPECT_TRUE(report.ok) << report.where << ": " << report.message;
}

}  // namespace
}  // namespace tandem::unity

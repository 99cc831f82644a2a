// Checks moves, rewrites ranked by their layouts, and plans that carry their derivations.
#include "search/neighbours/rewrite_ranking.h"

#include <gtest/gtest.h>

#include <set>

#include "check/check.h"
#include "graph/text.h"
#include "models/model.h"
#include "rewrite/collection.h"
#include "rewrite/rule_text.h"
#include "search/neighbours/matmul_splits.h"
#include "search/neighbours/rewrite_moves.h"
#include "search/neighbours/taso_flexflow.h"

namespace tandem::search {
namespace {

using rewrite::Dictionary;
using rewrite::RuleSet;

const char* const kFuse = "fuse: (relu (linear ?x ?w)) => (linear ?x ?w act=relu)";

std::size_t count(const graph::Graph& graph, const std::string& op) {
  const auto ids = graph.ids();
  return static_cast<std::size_t>(
      std::ranges::count_if(ids, [&](graph::NodeId id) { return graph.node(id).op.name() == op; }));
}

graph::Graph mlp(int layers) {
  const auto size = "mlp:hidden=64,inputs=64,outputs=64,layers=" + std::to_string(layers);
  return models::parse_model(size).build(32, DType::kFp32);
}

TEST(Moves, RewriteAllEquivalentPlaces) {
  const auto model = mlp(6);
  Dictionary dictionary;
  const RuleSet rules(rewrite::parse_rules(kFuse), dictionary, {});
  const RewriteState first(model, rules, dictionary);
  const auto moves = first.list_moves();
  ASSERT_EQ(moves.size(), 1U);
  rewrite::Derivation steps;
  const auto after = first.apply(moves[0], &steps);
  ASSERT_TRUE(after.has_value());
  EXPECT_EQ(steps.size(), count(model, "relu"));
  const auto graph = after->draft().to_graph(model, dictionary);
  EXPECT_EQ(count(graph, "relu"), 0U);
  EXPECT_TRUE(after->list_moves().empty());
  EXPECT_EQ(replay(model, steps, rewrite::make_rule_finder(rules.rules())).identity_hash(),
            graph.identity_hash());
}

// Moves that are found for three layers apply to all.
TEST(Moves, DoNotDependOnTheNumberOfLayers) {
  Dictionary dictionary;
  const RuleSet rules(rewrite::list_usable_rules(), dictionary, {});
  const auto model = [](int layers) {
    const auto text =
        "bert_large:hidden=64,heads=4,ffn=256,seq=16,layers=" + std::to_string(layers);
    return models::parse_model(text).build(4, DType::kFp32);
  };
  EXPECT_EQ(RewriteState(model(3), rules, dictionary).list_moves(),
            RewriteState(model(7), rules, dictionary).list_moves());
}

TEST(Moves, SkipOverlappingPlaces) {
  const auto model = graph::parse_graph(R"(graph chain
%x = input() shape=[4, 8]
%a = relu(%x)
%b = relu(%a)
%c = relu(%b)
%s = reduce_mean(%c) axes=[0, 1]
return %s
)");
  Dictionary dictionary;
  const RuleSet rules(rewrite::parse_rules("twice: (relu (relu ?x)) => (relu ?x)"), dictionary, {});
  RewriteState at(model, rules, dictionary);
  while (!at.list_moves().empty()) {
    auto next = at.apply(at.list_moves()[0]);
    ASSERT_TRUE(next.has_value());
    at = std::move(*next);
  }
  EXPECT_EQ(count(at.draft().to_graph(model, dictionary), "relu"), 1U);
}

TEST(Moves, IncludeEverySinglePlace) {
  const auto model = mlp(6);
  Dictionary dictionary;
  const RuleSet rules(rewrite::parse_rules(kFuse), dictionary, {});
  const RewriteState first(model, rules, dictionary);
  const auto moves = first.list_single_moves();
  ASSERT_EQ(moves.size(), count(model, "relu"));
  std::set<std::string> graphs;
  for (const auto& move : moves) {
    const auto after = first.apply(move);
    ASSERT_TRUE(after.has_value());
    const auto graph = after->draft().to_graph(model, dictionary);
    EXPECT_EQ(count(graph, "relu"), moves.size() - 1);
    graphs.insert(to_text(graph));
  }
  EXPECT_EQ(graphs.size(), moves.size());
}

struct Searched {
  models::ConfiguredModel model;
  std::int64_t batch;
  graph::Graph graph = model.build(batch, DType::kFp32);
  machine::Machine machine;
  Options options = {};

  Searched(const std::string& text, std::int64_t of, const std::string& on)
      : model(models::parse_model(text)), batch(of), machine(machine::load_machine(on)) {
    options.network = {&model, batch, DType::kFp32};
  }
  [[nodiscard]] Result with(RewriteSearch algebra) {
    options.algebra = algebra;
    return search(graph, machine, options);
  }
};

bool is_rewritten_by(const Evaluated& best, const std::string& rule) {
  return std::ranges::any_of(best.rewritten->rules,
                             [&](const auto& name) { return name.starts_with(rule); });
}

void expect_checks(const Searched& searched, const Evaluated& best) {
  plan::Plan plan{.model = searched.model.text,
                  .machine = searched.machine.name,
                  .strategy = best.name,
                  .batch = searched.batch,
                  .mapped = best.mapped,
                  .iteration = {},
                  .memory = {}};
  if (best.rewritten) {
    plan.derivation = best.rewritten->derivation;
    plan.rules = best.rewritten->rules;
  }
  const auto report = check::check_plan(plan, make_digits(plan, searched.machine), searched.graph);
  EXPECT_TRUE(report.ok) << report.where << ": " << report.message;
  EXPECT_EQ(report.steps, plan.derivation.size());
}

TEST(JointSearch, MakesAPlanFasterAndPreservesTheModel) {
  Searched searched("mlp:layers=4,hidden=256,inputs=256,outputs=64", 64, "summit:1");
  const auto as_it_is = searched.with(RewriteSearch::kNone);
  const auto joint = searched.with(RewriteSearch::kJoint);
  ASSERT_TRUE(as_it_is.best && joint.best);
  EXPECT_LT(joint.best->simulation.iteration, as_it_is.best->simulation.iteration);
  ASSERT_TRUE(joint.best->rewritten);
  expect_checks(searched, *joint.best);
}

// No device can hold the tables, so devices communicate over a slow link. Then the features are not
// concatenated: each has its part of the layer (Figure 16b), and partial sums are sent. A ranking
// that ignores memory would put everything on one device and gain nothing.
TEST(JointSearch, RanksUnderTightMemory) {
  Searched searched("dlrm:variant=artifact", 2048, "summit:1");
  searched.machine = machine::parse_machine(R"(machine pair
usage pair
doc two devices on a slow link

device V100
  memory 16 GB
  reserve 1 GB
  bandwidth 900 GB/s
  memory_utilization 0.8
  peak fp32 15.7 TFLOP/s
  compute_utilization 0.7
  launch 5 us

level gpu 2
  bandwidth 1 GB/s
  latency 4 us
)",
                                            "pair.machine");
  searched.options.memory = Bytes{800e6};
  const auto joint = searched.with(RewriteSearch::kJoint);
  ASSERT_TRUE(joint.best && joint.best->rewritten);
  EXPECT_TRUE(is_rewritten_by(*joint.best, "linear-of-concat-5-in-two:"));
  EXPECT_TRUE(is_rewritten_by(*joint.best, "linear-of-concat-2:"));
  for (const auto& baseline : joint.baselines) {
    EXPECT_LT(joint.best->simulation.iteration, 0.8 * baseline.simulation.iteration);
  }
  expect_checks(searched, *joint.best);
}

// A layer that waits for the rows of all tables is divided into several, each for some of the rows.
// They are computed while the rest is still being sent (Figure 16b). This also holds for layers
// that were fused with the next operator.
TEST(JointSearch, StartsALayerBeforeAllFeaturesArrive) {
  Searched searched("dlrm", 6144, "summit:1,software=serial");
  const auto as_it_is = searched.with(RewriteSearch::kNone);
  const auto joint = searched.with(RewriteSearch::kJoint);
  ASSERT_TRUE(as_it_is.best && joint.best && joint.best->rewritten);
  EXPECT_LT(joint.best->simulation.iteration, 0.89 * as_it_is.best->simulation.iteration);
  // Two matmuls are best; the search reaches them directly, not by way of four.
  EXPECT_TRUE(is_rewritten_by(*joint.best, "linear-of-concat-27-in-two"));
  EXPECT_TRUE(is_rewritten_by(*joint.best, "fuse-linear-relu:"));
  expect_checks(searched, *joint.best);
}

// With sharded tables eight matmuls are best; with whole tables on different devices, two. Rewrites
// that lost before are tried again.
TEST(JointSearch, SplitsALayerByTablesSideBySide) {
  Searched searched("dlrm", 12288, "summit:2,software=serial");
  const auto as_it_is = searched.with(RewriteSearch::kNone);
  const auto joint = searched.with(RewriteSearch::kJoint);
  ASSERT_TRUE(as_it_is.best && joint.best && joint.best->rewritten);
  EXPECT_LT(joint.best->simulation.iteration, 0.92 * as_it_is.best->simulation.iteration);
  EXPECT_TRUE(is_rewritten_by(*joint.best, "linear-of-concat-27-in-"));
  expect_checks(searched, *joint.best);
}

// A rewritten graph is planned as if it were the model, with all strategies next to its tables. It
// is not limited to the strategy under which it was ranked.
TEST(JointSearch, PlansARewrittenGraphLikeTheModel) {
  Searched searched("dlrm", 24576, "summit:4,software=serial");
  const auto joint = searched.with(RewriteSearch::kJoint);
  ASSERT_TRUE(joint.best && joint.best->rewritten);
  const auto again = search(joint.best->rewritten->graph, searched.machine, {});
  ASSERT_TRUE(again.best);
  EXPECT_LE(joint.best->simulation.iteration, 1.001 * again.best->simulation.iteration);
  expect_checks(searched, *joint.best);
}

// A bag is looked up and summed in one kernel, which is the cheapest choice. If software takes
// several kernels for it, bags are opened (Figure 16c).
TEST(JointSearch, SplitsBagsThatTakeSeveralKernels) {
  for (const bool are_several : {false, true}) {
    SCOPED_TRACE(are_several);
    Searched searched("xdl:tables=4,rows=10000,dim=16,bag=2,top=64-64-2", 96, "summit:1");
    if (are_several) {
      searched.machine.device.software.kernels["embedding_bag"] = {.forward = 6, .backward = 6};
    }
    const auto as_it_is = searched.with(RewriteSearch::kNone);
    const auto joint = searched.with(RewriteSearch::kJoint);
    ASSERT_TRUE(as_it_is.best && joint.best && joint.best->rewritten);
    const auto& opened = joint.best->rewritten->graph;
    EXPECT_EQ(count(opened, "embedding"), are_several ? 4U : 0U);
    EXPECT_EQ(count(opened, "embedding_bag"), are_several ? 0U : 4U);
    EXPECT_LT(joint.best->simulation.iteration, as_it_is.best->simulation.iteration);
    expect_checks(searched, *joint.best);
  }
}

// PyTorch sorts for the gradient of a bag, but takes one kernel for few single rows. This is
// Unity's XDL, as in its artifact, with few samples.
TEST(JointSearch, SplitsBagsLikePyTorch) {
  Searched searched("xdl", 3072, "summit:1,software=pytorch-tables");
  const auto as_it_is = searched.with(RewriteSearch::kNone);
  const auto joint = searched.with(RewriteSearch::kJoint);
  ASSERT_TRUE(as_it_is.best && joint.best && joint.best->rewritten);
  EXPECT_EQ(count(joint.best->rewritten->graph, "embedding"), 4U);
  EXPECT_EQ(count(joint.best->rewritten->graph, "embedding_bag"), 0U);
  EXPECT_LT(joint.best->simulation.iteration, 0.95 * as_it_is.best->simulation.iteration);
  expect_checks(searched, *joint.best);
}

TEST(MatmulSplits, ExcludeMatmulsOfOneTensor) {
  EXPECT_TRUE(list_matmul_splits(mlp(4), nullptr).empty());
  const auto dlrm = models::parse_model("dlrm:tables=7,rows=1000").build(8, DType::kFp32);
  const auto rules = list_algebraic_rules();
  const auto made = list_matmul_splits(dlrm, nullptr);
  ASSERT_EQ(made.size(), 3U);  // all features apart, in two parts, and in four
  for (const auto& one : made) {
    ASSERT_EQ(one->derivation.size(), 1U);
    EXPECT_EQ(replay(dlrm, one->derivation, rewrite::make_rule_finder(rules)).identity_hash(),
              one->graph.identity_hash());
  }
  std::multiset<int> concats;
  for (const auto& one : made) concats.insert(static_cast<int>(count(one->graph, "concat")));
  EXPECT_EQ(concats, (std::multiset<int>{0, 2, 4}));
}

TEST(JointSearch, IsNoWorseThanSequentialSearch) {
  const std::vector<std::pair<std::string, std::int64_t>> networks = {
      {"mlp:layers=3,hidden=512,inputs=512,outputs=64", 96},
      {"bert_large:layers=3,hidden=256,heads=4,ffn=1024,seq=64", 96},
      {"dlrm:tables=4,rows=1000,bottom=64-64,top=64-1", 96},
      // Branches are placed starting from layouts that were not the best before.
      {"candle_uno", 1536}};
  for (const auto& [model, batch] : networks) {
    SCOPED_TRACE(model);
    Searched searched(model, batch, "summit:1");
    const auto joint = searched.with(RewriteSearch::kJoint);
    const auto sequential = searched.with(RewriteSearch::kSequential);
    ASSERT_TRUE(joint.best && sequential.best);
    EXPECT_LE(joint.best->simulation.iteration.value,
              (1 + 1e-9) * sequential.best->simulation.iteration.value);
    expect_checks(searched, *joint.best);
  }
}

// Without any one shortcut, the search still finds a plan that is no slower than the baselines.
TEST(JointSearch, FindsAPlanWithoutItsShortcuts) {
  Searched searched("mlp:layers=3,hidden=512,inputs=512,outputs=64", 96, "summit:1");
  searched.options.max_rewrites = 60;
  const auto whole = searched.with(RewriteSearch::kJoint);
  const auto expect_plan = [&](const Result& found) {
    ASSERT_TRUE(found.best.has_value());
    expect_checks(searched, *found.best);
    for (const auto& baseline : found.baselines) {
      EXPECT_LE(found.best->simulation.iteration, baseline.simulation.iteration);
    }
  };
  expect_plan(whole);
  searched.options.shares_tables = false;
  const auto unshared = searched.with(RewriteSearch::kJoint);
  EXPECT_EQ(unshared.best->simulation.iteration, whole.best->simulation.iteration);
  searched.options.folds = false;
  expect_plan(searched.with(RewriteSearch::kJoint));
  searched.options.finder.by = Finder::By::kDescent;
  expect_plan(searched.with(RewriteSearch::kJoint));
  EXPECT_NE(searched.with(RewriteSearch::kJoint).bound_scope, "these rewrites and layouts");
  searched.options.finder = {.by = Finder::By::kWalk, .seed = 3};
  expect_plan(searched.with(RewriteSearch::kNone));
}

TEST(TasoFlexflow, IsNoFasterThanThePlanAndDeterministic) {
  Searched searched("mlp:layers=3,hidden=512,inputs=512,outputs=64", 96, "summit:1");
  const auto joint = searched.with(RewriteSearch::kJoint);
  const auto walked = search_taso_flexflow(searched.graph, searched.machine, searched.options);
  expect_checks(searched, walked);
  EXPECT_GE(walked.simulation.iteration, joint.best->simulation.iteration);
  const auto again = search_taso_flexflow(searched.graph, searched.machine, searched.options);
  EXPECT_EQ(again.simulation.iteration, walked.simulation.iteration);
}

}  // namespace
}  // namespace tandem::search

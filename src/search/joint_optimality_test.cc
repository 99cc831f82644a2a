// Compares the joint search with enumeration on random small graphs and machines. No graph within
// three rewrites, in any layouts, may cost less than the result of the search.
#include <gtest/gtest.h>

#include <iostream>
#include <unordered_set>

#include "base/fewer_test_support.h"
#include "rewrite/matches.h"
#include "search/fastest_plan_test_support.h"
#include "search/neighbours/rewrite_ranking.h"
#include "search/search.h"
#include "search/small_cases_test_support.h"
#include "search/space/layout_oracle_test_support.h"

namespace tandem::search {
namespace {

constexpr double kRounding = 1e-5;  // the search sums in single precision
constexpr std::size_t kSteps = 3;
constexpr std::size_t kMostGraphs = 400;

// Returns a graph of few operators, all of which the loss needs.
Graph graph_to_rewrite(std::uint64_t seed) {
  const auto model = SmallGraph(seed, 2 + seed / 8 % 4, SmallGraph::Ends::kLoss).build();
  rewrite::Dictionary dictionary;
  return rewrite::Draft::from_graph(model, dictionary).to_graph(model, dictionary);
}

// Returns all graphs that up to kSteps rewrites at any place make of the model, including the
// model. Returns nullopt if there are too many.
std::optional<std::vector<Graph>> list_rewrites(const Graph& model) {
  rewrite::Dictionary dictionary;
  const rewrite::RuleSet rules(list_algebraic_rules(), dictionary, {});
  std::vector<rewrite::Draft> drafts = {rewrite::Draft::from_graph(model, dictionary)};
  std::unordered_set<Hash> seen = {drafts[0].hash()};
  std::size_t from = 0;
  for (std::size_t step = 0; step < kSteps; ++step) {
    const auto to = drafts.size();
    for (; from < to; ++from) {
      const auto matches = rewrite::Matches::find(rules, drafts[from]).all();
      for (const auto& match : matches) {
        std::vector<rewrite::Slot> changed;
        auto next = rules.apply(drafts[from], match, changed);
        if (!next || !seen.insert(next->hash()).second) continue;
        drafts.push_back(std::move(*next));
        if (drafts.size() > kMostGraphs) return std::nullopt;
      }
    }
  }
  std::vector<Graph> out;
  for (const auto& draft : drafts) out.push_back(draft.to_graph(model, dictionary));
  return out;
}

// Returns the cost of the cheapest layouts of the cheapest graph.
double find_least_time(const std::vector<Graph>& graphs, const machine::Machine& machine) {
  const machine::Digits digits(machine);
  predict::CostModel costs(machine, digits, plan::Optimizer::kSgd);
  double least = LayoutOracle::kNever;
  for (const auto& graph : graphs) {
    least = std::min(least, LayoutOracle(graph, digits, costs).least({}, least));
  }
  return least;
}

Ranking rank_candidates(const Graph& model, const machine::Machine& machine) {
  Options options;
  options.algebra = RewriteSearch::kJoint;
  options.states_per_node = 100000;
  CandidatePool pool(model, machine, options);
  return rank_rewrites(pool, {.max_graphs = 1, .saves = false});
}

// In graphs this small, a step towards a better graph, such as splitting a fused kernel, can cost a
// large part of the whole. In a few of these cases that is more than the 5 % that Unity's paper
// allows.
void expect_no_better_rewrite(std::uint64_t from, std::uint64_t to, std::size_t least_cases) {
  const auto machines = small_machines();
  std::size_t cases = 0;
  std::size_t rewritten = 0;
  for (auto seed = from; seed < to; ++seed) {
    SCOPED_TRACE(seed);
    const auto model = graph_to_rewrite(seed);
    const auto graphs = list_rewrites(model);
    if (!graphs) continue;
    ++cases;
    const auto& machine = machines[seed % machines.size()];
    const auto found = rank_candidates(model, machine);
    const double least = find_least_time(*graphs, machine);
    EXPECT_LE(found.least, least * (1 + kRounding))
        << to_text(model) << "on " << machine.name << ", " << graphs->size() << " graphs";
    // Some layouts must have exactly the reported cost.
    for (const auto& best : found.best) {
      ++rewritten;
      EXPECT_NEAR(found.least, find_least_time({best->graph}, machine), kRounding * found.least);
    }
  }
  std::cout << cases << " cases, " << rewritten << " rewritten\n";
  EXPECT_GE(cases, least_cases);
  EXPECT_GE(rewritten, least_cases / 8);
}

// --- Simulation ----------------------------------------------------------------------------------

// Returns the fraction by which the found plan's iteration is longer than the fastest of all
// rewrites in all layouts. Returns nullopt if there are too many plans to simulate.
std::optional<double> find_joint_regret(const Graph& model, const machine::Machine& machine,
                                        double most) {
  const auto graphs = list_rewrites(model);
  if (!graphs) return std::nullopt;
  double plans = 0;
  for (const auto& graph : *graphs) {
    plans += FastestPlan(graph, machine, plan::Optimizer::kSgd).count();
    if (plans > most) return std::nullopt;
  }
  Seconds best{LayoutOracle::kNever};
  for (const auto& graph : *graphs) {
    best = std::min(best, FastestPlan(graph, machine, plan::Optimizer::kSgd).find());
  }
  Options options;
  options.algebra = RewriteSearch::kJoint;
  const auto found = search(model, machine, options);
  EXPECT_TRUE(found.best.has_value());
  return found.best->simulation.iteration / best - 1;
}

// Expects at most 2 % in 95 % of the graphs that have at most `plans` plans.
void expect_little_regret_of_both(std::uint64_t from, std::uint64_t to, double plans,
                                  std::size_t least_cases) {
  const std::vector<machine::Machine> machines = {small_machine(1, 2), small_machine(2, 1),
                                                  small_machine(1, 3), small_machine(2, 2)};
  std::size_t cases = 0;
  std::size_t near = 0;
  std::string others;
  for (auto seed = from; seed < to; ++seed) {
    SCOPED_TRACE(seed);
    const auto now =
        find_joint_regret(graph_to_rewrite(seed), machines[seed % machines.size()], plans);
    if (!now) continue;
    ++cases;
    near += *now <= 0.02 ? 1 : 0;
    if (*now > 0.02) others += "\nseed " + std::to_string(seed) + ": " + std::to_string(*now);
  }
  std::cout << cases << " cases, " << near << " within 2 %" << others << "\n";
  EXPECT_GE(cases, least_cases);
  EXPECT_GE(static_cast<double>(near), 0.95 * static_cast<double>(cases)) << others;
}

TEST(JointOptimality, HasLittleRegretAgainstAnyRewrite) {
  expect_little_regret_of_both(0, 200 / kFewer, 3000, 30 / kFewer);
}

TEST(JointOptimality, HasLittleRegretAgainstAnyRewriteNightly) {
  expect_little_regret_of_both(200, 1400, 30000, 400);
}

TEST(JointOptimality, FindsNoCheaperGraphWithinThreeSteps) {
  expect_no_better_rewrite(0, 260 / kFewer, 200 / kFewer);
}

TEST(JointOptimality, FindsNoCheaperGraphWithinThreeStepsNightly) {
  expect_no_better_rewrite(260, 2600, 1800);
}

}  // namespace
}  // namespace tandem::search

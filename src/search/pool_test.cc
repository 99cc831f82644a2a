// Tests when a search ends, and that its plan depends only on the options.
#include "search/pool.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/model.h"
#include "plan/json.h"
#include "search/least_memory.h"
#include "strategies/setting_groups.h"

namespace tandem::search {
namespace {

struct Asked {
  models::ConfiguredModel model;
  graph::Graph graph = model.build(32, DType::kFp32);
  machine::Machine machine = machine::load_machine("dgx_a100:1");
  Options options;

  explicit Asked(const char* text = "bert_large:layers=2,hidden=256,heads=4,ffn=1024,seq=64")
      : model(models::parse_model(text)) {
    options.network = {&model, 32, DType::kFp32};
  }
  [[nodiscard]] Result find() const { return search(graph, machine, options); }
};

std::string plan_text_of(const Result& result) {
  return plan::to_json({.model = "bert",
                        .machine = "dgx_a100:1",
                        .strategy = result.best->name,
                        .mapped = result.best->mapped,
                        .iteration = result.best->simulation.iteration,
                        .memory = result.best->simulation.memory});
}

TEST(CandidatePool, IsTheSameForAnyNumberOfThreads) {
  Asked asked;
  const auto one = asked.find();
  asked.options.threads = 3;
  const auto three = asked.find();
  EXPECT_EQ(plan_text_of(one), plan_text_of(three));
  EXPECT_EQ(one.candidates, three.candidates);
  EXPECT_EQ(one.lower_bound->value, three.lower_bound->value);
  ASSERT_TRUE(one.runner_up && three.runner_up);
  EXPECT_EQ(one.runner_up->name, three.runner_up->name);
}

// Candidates that are given up would have changed nothing: not the best, the runner-up or the
// leaders.
TEST(CandidatePool, AbandonsIrrelevantCandidates) {
  const Asked asked("mlp:layers=4,hidden=512");
  const machine::Digits digits(asked.machine);
  const strategies::Problem problem(asked.graph, digits);
  std::vector<Candidate> candidates;
  for (const auto& made :
       make_strategies(strategies::list_named_settings("all", problem), problem)) {
    candidates.push_back({made.name, made.choices, made.schedule});
  }
  std::size_t given_up = 0;
  auto in_order = candidates;
  for (std::size_t round = 0; round < 8; ++round) {
    std::rotate(in_order.begin(), in_order.begin() + 7, in_order.end());
    candidates = in_order;
    for (std::size_t i = 0; i < candidates.size(); i += 3) candidates[i].name = kSideBySide;
    CandidatePool all(asked.graph, asked.machine, asked.options);
    CandidatePool some(asked.graph, asked.machine, asked.options);
    const auto costed = all.enter(candidates);
    const auto faster = some.enter(candidates, Seconds{});
    given_up += static_cast<std::size_t>(
        std::ranges::count_if(faster, [](const auto& c) { return !c.has_value(); }));
    EXPECT_EQ(all.best_candidate()->name, some.best_candidate()->name);
    EXPECT_EQ(all.result().best->simulation.iteration, some.result().best->simulation.iteration);
    all.choose_best();
    some.choose_best();
    ASSERT_TRUE(all.result().runner_up && some.result().runner_up);
    EXPECT_EQ(all.result().runner_up->name, some.result().runner_up->name);
    EXPECT_EQ(all.result().candidates, some.result().candidates);
    const auto leaders = all.list_leaders(nullptr);
    const auto same = some.list_leaders(nullptr);
    ASSERT_EQ(leaders.size(), same.size());
    for (std::size_t i = 0; i < leaders.size(); ++i) {
      EXPECT_EQ(leaders[i].choices, same[i].choices);
    }
  }
  EXPECT_GT(given_up, candidates.size());
}

TEST(CandidatePool, LimitsSimulations) {
  Asked asked;
  const auto all = asked.find();
  EXPECT_EQ(all.stop_reason, StopReason::kDone);
  for (const std::size_t most : {1U, 5U}) {
    for (const unsigned threads : {1U, 4U}) {
      asked.options.threads = threads;
      asked.options.until = {.candidates = most};
      const auto some = asked.find();
      EXPECT_EQ(some.candidates, most);
      EXPECT_EQ(some.stop_reason, StopReason::kCandidates);
      ASSERT_TRUE(some.best.has_value());
      EXPECT_GE(some.best->simulation.iteration, all.best->simulation.iteration);
    }
  }
}

TEST(CandidatePool, StopsEarlyWithTheBestPlan) {
  Asked asked;
  asked.options.until = {.seconds = 1e-9};
  const auto budget = asked.find();
  EXPECT_EQ(budget.stop_reason, StopReason::kBudget);
  EXPECT_EQ(budget.candidates, 1U);
  EXPECT_TRUE(budget.best.has_value());

  int questions = 0;
  asked.options.until = {.interrupted = [&] { return ++questions > 2; }};
  const auto interrupted = asked.find();
  EXPECT_EQ(interrupted.stop_reason, StopReason::kInterrupted);
  EXPECT_TRUE(interrupted.best.has_value());

  asked.options.until = {.first_fit = true};
  const auto fit = asked.find();
  EXPECT_EQ(fit.stop_reason, StopReason::kFits);
  EXPECT_TRUE(fit.best->feasible);
}

// Weights and state exceed the limit by 48 bytes per device. Known strategies show how much is
// missing.
TEST(CandidatePool, ProvesByTheLeastMemoryThatNothingFits) {
  Asked asked("gpt2:layers=4,hidden=256,heads=8,ffn=1024,vocab=1024,seq=64");
  const auto stored = compute_least_stored(asked.graph, asked.options.optimizer, {});
  asked.options.memory = stored / static_cast<double>(asked.machine.devices()) - Bytes{48};
  const auto nothing = asked.find();
  EXPECT_FALSE(nothing.best.has_value());
  EXPECT_EQ(nothing.computed_tables, 0U);
  EXPECT_EQ(nothing.rewrites, 0U);
  EXPECT_EQ(nothing.stop_reason, StopReason::kDone);
  EXPECT_GE(nothing.smallest.over, Bytes{48});
  asked.options.memory = nothing.smallest.simulation.memory;
  EXPECT_TRUE(asked.find().best.has_value());
}

// Estimates prove that a large model needs more memory, although its weights alone would fit.
TEST(CandidatePool, SkipsLargeModelsFarFromFitting) {
  Asked asked("gpt2:layers=120,hidden=64,heads=4,ffn=256,vocab=256,seq=256");
  ASSERT_GE(asked.graph.size(), 2000U);
  const auto stored = compute_least_stored(asked.graph, asked.options.optimizer, {});
  asked.options.memory = 1.01 * stored / static_cast<double>(asked.machine.devices());
  ASSERT_FALSE(is_too_large(asked.graph, asked.machine, asked.options));
  const auto nothing = asked.find();
  EXPECT_FALSE(nothing.best.has_value());
  EXPECT_EQ(nothing.candidates, 0U);
  EXPECT_GE(nothing.smallest.over, 0.25 * *asked.options.memory);
}

TEST(CandidatePool, ReportsADifferentRunnerUpThatIsNoFaster) {
  const auto result = Asked().find();
  ASSERT_TRUE(result.runner_up.has_value());
  EXPECT_TRUE(result.runner_up->feasible);
  EXPECT_NE(result.runner_up->name, result.best->name);
  EXPECT_GE(result.runner_up->simulation.iteration, result.best->simulation.iteration);
}

}  // namespace
}  // namespace tandem::search

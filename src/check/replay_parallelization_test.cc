// Tests that rule steps make a plan parallel, that places without rules are listed, and that
// changed steps lead to other graphs.
#include "check/replay_parallelization.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "graph/text.h"
#include "plan/parallelization_derivation.h"
#include "plan/parallelize.h"
#include "plan/random_choices_test_support.h"

namespace tandem::check {
namespace {

using plan::Chain;
using plan::ChainLink;
using plan::find_chain_steps;
using plan::find_parallelization;
using plan::make_digits;
using plan::MappedGraph;
using plan::named_choices;
using plan::Parallelization;
using plan::parallelize;
using plan::random_choices;
using plan::random_model;

graph::Graph two_linear_layers() {
  return graph::parse_graph(
      "graph m\n%x = input() shape=[6, 8]\n%w1 = weight() shape=[4, 8]\n"
      "%linear1 = linear(%x, %w1)\n%relu1 = relu(%linear1)\n%w2 = weight() shape=[2, 4]\n"
      "%linear2 = linear(%relu1, %w2)\n%t = input() shape=[6, 2]\n%loss = mse(%linear2, %t)\n"
      "return %loss\n");
}

MappedGraph in_rows_and_columns(const machine::Digits& digits) {
  const auto model = two_linear_layers();
  return parallelize(
      model, digits,
      named_choices(model, digits, {{"linear1", "n d0"}, {"relu1", "d1 d0"}, {"linear2", "k d0"}}));
}

// --- Cuts ----------------------------------------------------------------------------------------

TEST(Parallelization, AppliesARuleForEveryPartitionedFactor) {
  const auto digits = make_digits({2, 3});
  const auto mapped = in_rows_and_columns(digits);
  const auto steps = find_parallelization(mapped, digits);
  EXPECT_EQ(steps.without, std::vector<std::string>{});
  const auto shown = replay_parallelization(mapped.pcg, steps);
  for (const auto* rule : {"parallelize-linear-over-n", "parallelize-linear-over-batch",
                           "parallelize-relu", "parallelize-linear-over-k"}) {
    EXPECT_TRUE(shown.cuts.rules.contains(rule)) << rule;
  }
  EXPECT_GE(shown.cuts.steps, 6U);
  EXPECT_GE(shown.cuts.places, 3U);
  EXPECT_EQ(shown.cuts.steps + shown.paths.steps, count_steps(steps));
}

// A loss has no dimensions of its own that could be partitioned.
TEST(Parallelization, PartitionsALossAlongItsOperands) {
  const auto digits = make_digits({2});
  const auto model = graph::parse_graph(
      "graph m\n%x = input() shape=[6, 8]\n%w = weight() shape=[4, 8]\n%y = linear(%x, %w)\n"
      "%t = input() shape=[6, 4]\n%loss = mse(%y, %t)\nreturn %loss\n");
  const auto mapped =
      parallelize(model, digits, named_choices(model, digits, {{"y", "d0"}, {"loss", "d0"}}));
  const auto shown = replay_parallelization(mapped.pcg, find_parallelization(mapped, digits));
  EXPECT_EQ(shown.cuts.places, 2U);
  EXPECT_EQ(shown.cuts.without, std::vector<std::string>{});
  EXPECT_TRUE(shown.cuts.rules.contains("parallelize-mse"));
}

// No rule partitions tanh yet.
TEST(Parallelization, NamesAnOperatorThatNoRulePartitions) {
  const auto digits = make_digits({2});
  const auto model = graph::parse_graph(
      "graph m\n%x = input() shape=[4, 8]\n%w = weight() shape=[4, 8]\n"
      "%bent = tanh(%w)\n%y = mul(%x, %bent)\n%t = input() shape=[4, 8]\n"
      "%loss = mse(%y, %t)\nreturn %loss\n");
  const auto mapped =
      parallelize(model, digits, named_choices(model, digits, {{"bent", "d0"}, {"y", "d1"}}));
  const auto steps = find_parallelization(mapped, digits);
  EXPECT_EQ(steps.without, std::vector<std::string>{"bent"});
  const auto shown = replay_parallelization(mapped.pcg, steps);
  EXPECT_EQ(shown.cuts.without, std::vector<std::string>{"bent"});
  EXPECT_TRUE(shown.cuts.rules.contains("parallelize-mul"));
}

// --- Ways ----------------------------------------------------------------------------------------

const ops::OpSpec& spec(const char* name) { return ops::find_op(name); }

TEST(Chain, FindsRulesFromOneListToAnother) {
  const ChainLink reduce{&spec("reduce"), -1, 2};
  const ChainLink unreplicate{&spec("unreplicate"), -1, 2};
  const ChainLink rows{&spec("partition"), 0, 2};
  const ChainLink fine_rows{&spec("partition"), 0, 4};
  const ChainLink columns{&spec("partition"), 1, 2};
  const ChainLink gather{&spec("combine"), 0, 4};
  const ChainLink gather_half{&spec("combine"), 0, 2};
  const ChainLink copy{&spec("replicate"), -1, 2};
  const ChainLink send{&spec("send")};
  const TensorType type{ParallelShape({8, 8}), DType::kFp32};
  const auto cut = [&] {
    auto out = type;
    out.shape.degrees[0] = 4;
    out.shape.replicas = 2;
    out.shape.partial = 2;
    return out;
  }();
  const std::vector<std::pair<Chain, Chain>> cases = {
      {{gather, rows}, {gather_half}},
      {{gather_half, gather_half, fine_rows}, {}},
      {{reduce, unreplicate, columns, copy}, {unreplicate, columns, reduce, copy}},
      {{reduce, unreplicate, gather, columns}, {unreplicate, columns, gather, reduce, send}},
      {{gather, fine_rows, unreplicate, copy}, {send, gather_half, rows}},
  };
  for (const auto& [from, to] : cases) {
    SCOPED_TRACE(to_text(from) + " | " + to_text(to));
    const auto steps = find_chain_steps(from, to);
    ASSERT_TRUE(steps.has_value());
    EXPECT_EQ(to_text(replay_chain(cut, from, *steps)), to_text(to));
    const auto back = find_chain_steps(to, from);
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(to_text(replay_chain(cut, to, *back)), to_text(from));
  }
  EXPECT_FALSE(find_chain_steps({gather}, {gather_half}).has_value());
  EXPECT_FALSE(find_chain_steps({rows}, {columns}).has_value());
}

TEST(Parallelization, DerivesRandomPlans) {
  for (const auto& counts : std::vector<std::vector<std::int64_t>>{{2}, {2, 3}, {2, 2, 2}}) {
    const auto digits = make_digits(counts);
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      const auto model = random_model(digits.devices(), seed);
      const auto mapped = parallelize(model, digits, random_choices(model, digits, seed));
      SCOPED_TRACE(fmt::format("{} devices, seed {}\n{}", digits.devices(), seed,
                               graph::to_text(mapped.pcg)));
      const auto steps = find_parallelization(mapped, digits);
      const auto shown = replay_parallelization(mapped.pcg, steps);
      EXPECT_EQ(shown.cuts.without.size() + shown.paths.without.size(), steps.without.size());
      // No rule swaps a partition by 3 with a combine by 2. Other paths lack steps only if partial
      // sums pass through an operator.
      if (counts == std::vector<std::int64_t>{2, 3}) continue;
      for (const auto& place : shown.paths.without) {
        const auto name = place.substr(0, place.find(':'));
        EXPECT_TRUE(std::ranges::find(shown.cuts.without, name) != shown.cuts.without.end())
            << place;
      }
      if (HasFailure()) return;
    }
  }
}

// --- Changed steps -------------------------------------------------------------------------------

std::string refusal(const MappedGraph& mapped, const Parallelization& steps) {
  try {
    replay_parallelization(mapped.pcg, steps);
  } catch (const UserError& error) {
    return error.where + ": " + error.message;
  }
  return "none";
}

TEST(Parallelization, RefusesChangedSteps) {
  const auto digits = make_digits({2, 3});
  const auto mapped = in_rows_and_columns(digits);
  const auto right = find_parallelization(mapped, digits);
  ASSERT_EQ(refusal(mapped, right), "none");
  ASSERT_FALSE(right.paths.empty());
  auto changed = right;
  changed.cuts[0].steps[0].choices.back() = 1;
  EXPECT_NE(refusal(mapped, changed).find("the steps make operand"), std::string::npos)
      << refusal(mapped, changed);
  changed = right;
  changed.cuts[0].replicas = 2;
  EXPECT_NE(refusal(mapped, changed).find("the steps make operand 0 [6/"), std::string::npos);
  changed = right;
  changed.cuts[0].steps[0].rule = "fuse-linear-relu";
  EXPECT_NE(refusal(mapped, changed), "none");
  changed = right;
  changed.cuts[0].steps[0].rule = "no-such-rule";
  EXPECT_NE(refusal(mapped, changed).find("unknown rule"), std::string::npos);
  changed = right;
  changed.cuts[0].places.pop_back();
  EXPECT_NE(refusal(mapped, changed).find("is sharded, but no derivation step explains how"),
            std::string::npos);
  changed = right;
  changed.cuts[0].places.push_back(changed.cuts[0].places[0]);
  EXPECT_NE(refusal(mapped, changed).find("is derived twice"), std::string::npos);
  changed = right;
  changed.cuts[0].places.emplace_back("nothing");
  EXPECT_EQ(refusal(mapped, changed), "nothing: has a derivation, but is not in the plan");
  changed = right;
  changed.paths[0].steps.pop_back();
  EXPECT_NE(refusal(mapped, changed), "none");
  changed = right;
  changed.paths[0].steps[0].at = 99;
  EXPECT_NE(refusal(mapped, changed).find("expected at least 99 operators"), std::string::npos);
  changed = right;
  changed.paths.clear();
  EXPECT_NE(refusal(mapped, changed).find("the steps lead to"), std::string::npos);
}

}  // namespace
}  // namespace tandem::check

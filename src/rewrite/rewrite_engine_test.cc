// Tests of the whole engine on random graphs. The graphs that it makes have the hashes that it
// reports, replay with independent code, and compute the same numbers. Matches that are updated
// incrementally equal those of a full search.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "base/error_test_support.h"
#include "graph/random_graph_test_support.h"
#include "graph/sequential.h"
#include "graph/text.h"
#include "rewrite/derivation.h"
#include "rewrite/matches.h"
#include "rewrite/rules_test_support.h"

namespace tandem::rewrite {
namespace {

using graph::Graph;

std::vector<Match> sort_matches(const Matches& matches) {
  auto out = matches.all();
  std::ranges::sort(out);
  return out;
}

// Rules and the nodes where they apply.
using Places = std::set<std::pair<std::string, std::vector<Slot>>>;

// Finds all places by brute force: tries each rule at each tuple of nodes with the code of
// `replay`.
Places places_by_replay(const RuleSet& rules, const Graph& graph, const Draft& draft) {
  Places out;
  for (const auto& rule : rules.rules()) {
    std::vector<std::vector<Slot>> tuples{{}};
    for (std::size_t o = 0; o < rule.source.outputs.size(); ++o) {
      std::vector<std::vector<Slot>> longer;
      for (const auto& tuple : tuples) {
        for (auto slot : draft.order()) {
          if (std::ranges::find(tuple, slot) != tuple.end()) continue;
          longer.push_back(tuple);
          longer.back().push_back(slot);
        }
      }
      tuples = std::move(longer);
    }
    for (const auto& tuple : tuples) {
      DerivationStep step{rule.name, {}, {}, draft.hash(), 0};
      for (auto slot : tuple) step.place.push_back(draft.node(slot).hash);
      // No graph has hash 0, so a step that applies fails at its end.
      const auto wrong = get_error([&] { replay(graph, {step}, make_rule_finder(rules.rules())); });
      if (wrong.find("the graph after") != std::string::npos) out.emplace(rule.name, tuple);
    }
  }
  return out;
}

TEST(RewriteEngine, FindsEveryMatch) {
  std::size_t found = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    const auto graph = graph::RandomGraph(seed, {.operators = 8, .parallel = false}).build();
    auto all_rules = example_rules();
    std::erase_if(all_rules, [](const Rule& rule) { return !rule.choices.empty(); });
    Dictionary dictionary;
    const RuleSet rules(all_rules, dictionary, {});
    const auto draft = Draft::from_graph(graph, dictionary);
    const auto possible = places_by_replay(rules, graph, draft);
    Places matched;
    std::vector<Slot> changed;
    for (const auto& match : Matches::find(rules, draft).all()) {
      const auto& rule = rules.rules()[match.rule];
      const auto end = match.outputs.begin() + std::ssize(rule.source.outputs);
      const std::pair place{rule.name, std::vector<Slot>(match.outputs.begin(), end)};
      EXPECT_TRUE(matched.insert(place).second) << "found twice, seed " << seed;
      // A match whose target does not fit is rewritten by neither engine.
      const bool applies = rules.apply(draft, match, changed).has_value();
      EXPECT_TRUE(!applies || possible.contains(place));
    }
    for (const auto& place : possible) EXPECT_TRUE(matched.contains(place)) << place.first;
    found += possible.size();
  }
  EXPECT_GT(found, 100U);
}

// Each edit in place gives the same draft as an edit of a copy, even if an earlier edit removed the
// place.
TEST(RewriteEngine, EditsInPlaceLikeCopies) {
  std::size_t edited = 0;
  std::size_t gone = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto graph = graph::RandomGraph(seed, {.operators = 24, .parallel = false}).build();
    Dictionary dictionary;
    const RuleSet rules(example_rules(), dictionary, {.degrees = {2, 3}, .matches = 100'000});
    auto copied = Draft::from_graph(graph, dictionary);
    auto in_place = copied;
    const auto before = Matches::find(rules, copied);
    DraftEdits edits(in_place);
    std::vector<Slot> changed;
    for (const auto& match : sort_matches(before)) {
      if (rules.rules()[match.rule].source.outputs.size() > 1) continue;
      const auto slot = match.outputs[0];
      const auto is_same = [&] {
        return slot < copied.slot_count() && slot < in_place.slot_count() &&
               copied.node(slot).in_use && in_place.node(slot).in_use &&
               copied.node(slot).hash == in_place.node(slot).hash;
      };
      if (!is_same()) continue;  // the two drafts reuse free slots in different orders
      auto next = rules.apply(copied, match, changed);
      ASSERT_EQ(rules.apply(edits, match), next.has_value()) << "seed " << seed;
      (next ? edited : gone) += 1;
      if (next) copied = std::move(*next);
      ASSERT_EQ(in_place.hash(), copied.hash()) << "seed " << seed;
    }
    const auto after = before.find_after_rewrite(rules, in_place, edits.finish());
    EXPECT_EQ(sort_matches(after), sort_matches(Matches::find(rules, in_place))) << "seed " << seed;
    EXPECT_EQ(in_place.to_graph(graph, dictionary).identity_hash(), copied.hash());
  }
  EXPECT_GT(edited, 200U);
  EXPECT_GT(gone, 10U);
}

TEST(RewriteEngine, LimitsTheMatchesOfARule) {
  std::string text = "graph g\n%x0 = input() shape=[4]\n";
  for (int i = 0; i < 200; ++i) text += fmt::format("%x{} = relu(%x{})\n", i + 1, i);
  const auto graph = graph::parse_graph(text + "return %x200\n");
  Dictionary dictionary;
  const RuleSet rules(parse_rule("any: (relu ?x), (relu ?y) => (relu ?x), (relu ?y)"), dictionary,
                      {.degrees = {2}, .matches = 1000});
  const auto draft = Draft::from_graph(graph, dictionary);
  EXPECT_TRUE(Matches::find(rules, draft).is_cut());
  EXPECT_LE(Matches::find(rules, draft).size(), 1000U);
  const RuleSet roomy(rules.rules(), dictionary, {.degrees = {2}, .matches = 100'000});
  EXPECT_FALSE(Matches::find(roomy, draft).is_cut());
  EXPECT_EQ(Matches::find(roomy, draft).size(), 200U * 199U);
}

// A chosen dimension may be one that the result lacks: a loss is sharded along its operands'
// dimensions.
TEST(RewriteEngine, ChoosesDimensionsOfOperands) {
  const auto graph = graph::parse_graph(
      "graph g\n%x = input() shape=[4, 6]\n%y = input() shape=[4, 6]\n%l = mse(%x, %y)\nreturn "
      "%l\n");
  Dictionary dictionary;
  const RuleSet rules(parse_rule("cut: (mse ?x ?y) => (reduce (mse (partition ?x dim=?i degree=?d) "
                                 "(partition ?y dim=?i degree=?d)) degree=?d) choose ?i, ?d if "
                                 "divides(?d * degree(?x, ?i), dim(?x, ?i)) and 0 < ?d"),
                      dictionary, {.degrees = {2, 3}});
  std::vector<std::pair<int, int>> chosen;
  for (const auto& match : Matches::find(rules, Draft::from_graph(graph, dictionary)).all()) {
    chosen.emplace_back(match.choices[0], match.choices[1]);
  }
  std::ranges::sort(chosen);
  EXPECT_EQ(chosen, (std::vector<std::pair<int, int>>{{0, 2}, {1, 2}, {1, 3}}));
}

TEST(RewriteEngine, AgreesWithReplayAndExecution) {
  std::size_t rewrites = 0;
  std::map<std::string, int> used;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto first = graph::RandomGraph(seed, {.operators = 16, .parallel = false}).build();
    Dictionary dictionary;
    const RuleSet rules(example_rules(), dictionary, {.degrees = {2, 3}, .matches = 100'000});
    auto draft = Draft::from_graph(first, dictionary);
    auto matches = Matches::find(rules, draft);
    EXPECT_EQ(draft.hash(), first.identity_hash());
    Derivation derivation;
    std::vector<Slot> changed;
    for (int step = 0; step < 12; ++step) {
      const auto all = sort_matches(matches);
      if (all.empty()) break;
      // Choose a rule first, so that rules with few matches are used, too.
      std::vector<std::uint32_t> present;
      for (const auto& match : all) {
        if (present.empty() || present.back() != match.rule) present.push_back(match.rule);
      }
      const auto rule = present[random() % present.size()];
      std::vector<Match> of_rule;
      std::ranges::copy_if(all, std::back_inserter(of_rule),
                           [&](const Match& match) { return match.rule == rule; });
      const auto& match = of_rule[random() % of_rule.size()];
      auto next = rules.apply(draft, match, changed);
      if (!next) continue;
      derivation.push_back(make_derivation_step(rules, match, draft, *next));
      matches = matches.find_after_rewrite(rules, *next, changed);
      draft = std::move(*next);
      EXPECT_EQ(sort_matches(matches), sort_matches(Matches::find(rules, draft)))
          << "seed " << seed;
      EXPECT_EQ(matches.size(), matches.all().size());
      ++used[derivation.back().rule];
      ++rewrites;
    }
    const auto last = draft.to_graph(first, dictionary);
    ASSERT_EQ(last.identity_hash(), draft.hash()) << "seed " << seed;
    const auto read = parse_derivation(to_text(derivation));
    EXPECT_EQ(read, derivation);
    EXPECT_EQ(replay(first, read, make_rule_finder(rules.rules())).identity_hash(),
              last.identity_hash());
    EXPECT_EQ(graph::parse_graph(graph::to_text(last)).identity_hash(), last.identity_hash());

    const auto erased = graph::erase_parallelism(last);
    const auto before =
        graph::run_forward<term::Field>(first, graph::make_feed_values<term::Field>(first));
    const auto after =
        graph::run_forward<term::Field>(erased, graph::make_feed_values<term::Field>(erased));
    for (std::size_t o = 0; o < first.outputs().size(); ++o) {
      EXPECT_EQ(before[first.outputs()[o].index()], after[erased.outputs()[o].index()])
          << "seed " << seed << "\n"
          << to_text(derivation);
    }
  }
  EXPECT_GT(rewrites, 400U);
  EXPECT_GE(used.size(), 10U) << fmt::format("{}", used);
}

TEST(RewriteEngine, RefusesWrongStepsInReplay) {
  const auto graph = graph::parse_graph(
      "graph g\n%x = input() shape=[4, 6]\n%w = weight() shape=[2, 6]\n%y = linear(%x, %w)\n"
      "%r = relu(%y)\nreturn %r\n");
  Dictionary dictionary;
  const RuleSet rules(parse_rule("fuse: (relu (linear ?x ?w)) => (linear ?x ?w act=relu)"),
                      dictionary, {});
  const auto draft = Draft::from_graph(graph, dictionary);
  std::vector<Slot> changed;
  const auto match = Matches::find(rules, draft).all().at(0);
  const auto fused = rules.apply(draft, match, changed);
  ASSERT_TRUE(fused.has_value());
  const auto good = make_derivation_step(rules, match, draft, *fused);
  const auto find = make_rule_finder(rules.rules());
  EXPECT_EQ(graph::to_text(replay(graph, {good}, find)).find("relu("), std::string::npos);
  const auto message = [&](DerivationStep step) {
    return get_error([&] { replay(graph, {step}, find); });
  };
  auto step = good;
  step.rule = "melt";
  EXPECT_NE(message(step).find("step 1 (melt): unknown rule"), std::string::npos);
  step = good;
  step.before ^= 1;
  EXPECT_NE(message(step).find("the graph before it has hash"), std::string::npos);
  step = good;
  step.after ^= 1;
  EXPECT_NE(message(step).find("the graph after it has hash"), std::string::npos);
  step = good;
  step.place[0] = draft.node(draft.inputs(match.outputs[0])[0]).hash;
  EXPECT_NE(message(step).find("does not match relu of the rule"), std::string::npos);
  step.place = {1};
  EXPECT_NE(message(step).find("no node computes"), std::string::npos);
}

TEST(RewriteEngine, RefusesCyclicRewrites) {
  // The second sum uses the first. If both were merged, the first would need the second.
  const auto graph = graph::parse_graph(
      "graph g\n%x = input() shape=[4]\n%y = input() shape=[4]\n%a = add(%x, %y)\n"
      "%b = add(%x, %a)\nreturn %b\n");
  Dictionary dictionary;
  const RuleSet rules(
      parse_rule("both: (add ?x ?y), (add ?x ?z) => (sub (add ?x ?z) (sub ?z ?y)), (add ?x ?z)"),
      dictionary, {});
  const auto draft = Draft::from_graph(graph, dictionary);
  std::vector<Slot> changed;
  std::size_t refused = 0;
  const auto all = Matches::find(rules, draft).all();
  EXPECT_EQ(all.size(), 2U);
  for (const auto& match : all) refused += rules.apply(draft, match, changed) ? 0 : 1;
  EXPECT_EQ(refused, 1U);
}

}  // namespace
}  // namespace tandem::rewrite

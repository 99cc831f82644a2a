#include "search/neighbours/branches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "check/replay_parallelization.h"
#include "machine/machine.h"
#include "models/model.h"
#include "plan/parallelization_derivation.h"
#include "strategies/grid.h"

namespace tandem::search {
namespace {

graph::Graph build_towers(const std::string& model, std::int64_t batch) {
  return models::parse_model(model).build(batch, DType::kFp32);
}

TEST(Branches, AreTheTowersOfCandleUno) {
  const auto model = build_towers("candle_uno:towers=4,layers=3,hidden=64", 24);
  const auto branches = find_branches(model);
  ASSERT_EQ(branches.nodes.size(), 4U);
  EXPECT_GT(branches.share, 0.5);
  for (std::size_t b = 0; b < 4; ++b) {
    const auto prefix = "tower" + std::to_string(b + 1) + ".";
    for (auto id : branches.nodes[b]) {
      EXPECT_TRUE(model.node(id).name.starts_with(prefix)) << model.node(id).name;
    }
  }
}

TEST(Branches, HoldFewWeightsInAChainOfLayers) {
  for (const char* name : {"mlp:layers=4", "bert_large:layers=4", "resnet50"}) {
    EXPECT_LT(find_branches(build_towers(name, 24)).share, 0.5) << name;
  }
}

// Five towers on six devices: the step avoids most gradient sums. A search by cost tables alone, in
// which operators run one after another, found 27.5 ms, and Unity's search 21.5 ms.
TEST(Branches, ArePlacedOnSeparateDevices) {
  const auto model = build_towers("candle_uno", 96);
  const auto machine = machine::load_machine("summit:1");
  const machine::Digits digits(machine);
  Options options;
  options.algebra = RewriteSearch::kJoint;
  const auto result = search(model, machine, options);
  ASSERT_TRUE(result.best.has_value());
  EXPECT_LT(result.best->simulation.iteration.value, 15e-3);
  // The weights are on as many devices as there are towers.
  std::set<std::string> places;
  const auto& mapped = result.best->mapped;
  for (auto id : mapped.pcg.ids()) {
    const auto& layout = mapped.layouts[id.index()];
    const bool is_whole = layout.idle() == digits.all();
    if (is_weight(mapped.pcg.node(id)) && is_whole) places.insert(to_text(layout));
  }
  EXPECT_EQ(places.size(), 5U);
}

TEST(Branches, ArePlacedByProvedSteps) {
  const auto model = build_towers("candle_uno:hidden=48,features=24-36", 12);
  const auto machine = machine::load_machine("summit:1");
  const Options options;
  CandidatePool pool(model, machine, options);
  const strategies::Problem problem(model, pool.digits());
  const auto made = strategies::make_strategies({{.family = strategies::Family::kDp}}, problem);
  const Candidate from{"dp", made.at(0).choices, made.at(0).schedule};
  pool.enter({from});
  EXPECT_TRUE(place_branches(pool, {from}));
  const auto& best = pool.result().best;
  ASSERT_EQ(best->name, "search:branches");
  const auto steps = plan::find_parallelization(best->mapped, pool.digits());
  const auto shown = check::replay_parallelization(best->mapped.pcg, steps);
  EXPECT_EQ(shown.cuts.without, std::vector<std::string>{});
  EXPECT_EQ(shown.paths.without, std::vector<std::string>{});
}

// Each change is a simulation: the search ends when it may run no more.
TEST(Branches, StopWithTheSearch) {
  const auto model = build_towers("candle_uno", 96);
  const auto machine = machine::load_machine("summit:1");
  Options options;
  options.until.candidates = 3;
  CandidatePool pool(model, machine, options);
  const strategies::Problem problem(model, pool.digits());
  const auto made = strategies::make_strategies({{.family = strategies::Family::kDp}}, problem);
  const Candidate from{"dp", made.at(0).choices, made.at(0).schedule};
  pool.enter({from});
  place_branches(pool, {from});
  EXPECT_EQ(pool.result().candidates, 3U);
  EXPECT_EQ(pool.result().stop_reason, StopReason::kCandidates);
}

}  // namespace
}  // namespace tandem::search

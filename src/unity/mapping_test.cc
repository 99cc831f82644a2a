// Checks the mapping's dynamic program against other ways to the same cost: enumeration of all
// placements, and both splits written out for a fork and a join.
#include <gtest/gtest.h>

#include <random>

#include "models/model.h"
#include "search/small_cases_test_support.h"
#include "unity/substitution.h"

namespace tandem::unity {
namespace {

struct Bench {
  explicit Bench(const std::string& name, MappingOptions options = {})
      : machine(machine::load_machine(name)),
        digits(machine),
        costs(machine, digits, plan::Optimizer::kSgd),
        placements(digits, costs),
        substitutions(placements, std::move(options)) {}

  TaskGraph tasks(const rewrite::Draft& draft) {
    return TaskGraphBuilder(substitutions.dictionary(), placements)
        .build_for_piece(draft, {}, false);
  }

  // Returns the graph after `steps` rules at random places.
  rewrite::Draft rewritten(const graph::Graph& graph, std::size_t steps, std::mt19937_64& random) {
    auto draft = rewrite::Draft::from_graph(graph, substitutions.dictionary());
    std::vector<rewrite::Slot> changed;
    for (std::size_t i = 0; i < steps; ++i) {
      auto all = rewrite::Matches::find(substitutions.rules(), draft).all();
      std::erase_if(all, [&](const rewrite::Match& match) {
        return !is_parallel(substitutions.rules().rules()[match.rule]);
      });
      if (all.empty()) break;
      const auto next = substitutions.rules().apply(draft, all[random() % all.size()], changed);
      if (next) draft = *next;
    }
    return draft;
  }

  machine::Machine machine;
  machine::Digits digits;
  predict::CostModel costs;
  Placements placements;
  Substitutions substitutions;
};

// Returns the sum of the operators' costs at these places.
double total(const TaskGraph& graph, const std::vector<VertexPlace>& places,
             Placements& placements) {
  double out = 0;
  for (std::size_t v = 0; v < graph.vertices.size(); ++v) {
    const auto& vertex = graph.vertices[v];
    out += placements.get_placements(vertex.kind, places[v].region)[places[v].placement].seconds;
    for (const auto& edge : vertex.in) {
      const auto& table =
          placements.get_reshard_costs(graph.vertices[edge.from].kind, places[edge.from].region,
                                       vertex.kind, places[v].region, edge.operand);
      out += table.at(places[edge.from].placement, places[v].placement);
    }
  }
  return out;
}

double enumerate_cheapest(const TaskGraph& graph, Placements& placements) {
  std::vector<VertexPlace> places(graph.vertices.size());
  double best = kImpossible;
  const auto choose = [&](const auto& self, std::size_t v) -> void {
    if (v == places.size()) {
      best = std::min(best, total(graph, places, placements));
      return;
    }
    const auto count = placements.get_placements(graph.vertices[v].kind, kWholeMachine).size();
    for (std::uint32_t p = 0; p < count; ++p) {
      places[v].placement = p;
      self(self, v + 1);
    }
  };
  choose(choose, 0);
  return best;
}

std::size_t combinations(const TaskGraph& graph, Placements& placements) {
  std::size_t out = 1;
  for (const auto& vertex : graph.vertices) {
    out *= std::max<std::size_t>(placements.get_placements(vertex.kind, kWholeMachine).size(), 1);
    if (out > 20'000) return out;
  }
  return out;
}

TEST(UnityMapping, CostsNoMoreThanAllPlacementsInSequence) {
  Bench bench("summit:2");
  std::size_t compared = 0;
  std::size_t equal = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    std::mt19937_64 random(seed);
    const auto graph = search::SmallGraph(seed, 2 + seed % 5).build();
    if (graph.outputs().size() > 1) continue;
    const auto draft = bench.rewritten(graph, 1 + seed % 6, random);
    const auto tasks = bench.tasks(draft);
    if (tasks.vertices.empty() || combinations(tasks, bench.placements) > 20'000) continue;
    const auto expected = enumerate_cheapest(tasks, bench.placements);
    const auto mapping = bench.substitutions.mapping().find_best(tasks);
    if (expected == kImpossible) {
      EXPECT_EQ(mapping.seconds, kImpossible);
      continue;
    }
    ++compared;
    EXPECT_LE(mapping.seconds, expected * (1 + 1e-9)) << seed;
    bool divides = false;
    for (const auto& place : mapping.places) divides = divides || place.region != kWholeMachine;
    if (divides) continue;
    ++equal;
    EXPECT_NEAR(mapping.seconds, total(tasks, mapping.places, bench.placements),
                1e-9 * mapping.seconds);
    EXPECT_NEAR(mapping.seconds, expected, 1e-9 * expected) << seed;
  }
  EXPECT_GT(compared, 50U);
  EXPECT_GT(equal, 30U);
}

TEST(UnityMapping, TriesAllPlacementsInSequenceWithoutThePrograms) {
  Bench bench("summit:1", {.programs = false});
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    const auto graph = search::SmallGraph(seed, 4).build();
    const auto tasks = bench.tasks(bench.rewritten(graph, 3, random));
    const auto mapping = bench.substitutions.mapping().find_best(tasks);
    if (mapping.seconds == kImpossible) continue;
    ++compared;
    EXPECT_DOUBLE_EQ(mapping.seconds, enumerate_cheapest(tasks, bench.placements)) << seed;
    EXPECT_DOUBLE_EQ(mapping.seconds, total(tasks, mapping.places, bench.placements)) << seed;
  }
  EXPECT_GT(compared, 5U);
}

// Two matmuls of one tensor are added. Each runs on all devices or on a part of them.
TEST(UnityMapping, DividesTheDevicesBetweenTwoBranches) {
  Bench bench("summit:1");
  graph::GraphBuilder b("fork");
  const auto x = b.input("x", {96, 4096}, DType::kFp32);
  const auto top = b.add(ops::kLinear, {x, b.weight("w", {4096, 4096}, DType::kFp32)});
  const auto left = b.add(ops::kLinear, {top, b.weight("u", {4096, 4096}, DType::kFp32)});
  const auto right = b.add(ops::kLinear, {top, b.weight("v", {4096, 4096}, DType::kFp32)});
  const auto graph = b.finish({b.add(ops::kAdd, {left, right})});
  const auto tasks =
      bench.tasks(rewrite::Draft::from_graph(graph, bench.substitutions.dictionary()));
  ASSERT_EQ(tasks.vertices.size(), 4U);
  auto& placements = bench.placements;
  const auto side = [&](std::uint32_t vertex, RegionId region) {
    std::vector<VertexPlace> places(4);
    places[vertex].region = region;
    const auto kind = tasks.vertices[vertex].kind;
    return placements.get_placements(kind, region)[0].seconds +
           placements.get_reshard_costs(tasks.vertices[0].kind, 0, kind, region, 0).at(0, 0) +
           placements.get_reshard_costs(kind, region, tasks.vertices[3].kind, 0, vertex - 1)
               .at(0, 0);
  };
  double expected = side(1, kWholeMachine) + side(2, kWholeMachine);
  for (const auto& d : placements.regions().get_divisions(kWholeMachine)) {
    expected = std::min(expected, std::max(side(1, d.first), side(2, d.second)));
    expected = std::min(expected, std::max(side(1, d.second), side(2, d.first)));
  }
  expected += placements.get_placements(tasks.vertices[0].kind, 0)[0].seconds +
              placements.get_placements(tasks.vertices[3].kind, 0)[0].seconds;
  const auto mapping = bench.substitutions.mapping().find_best(tasks);
  EXPECT_DOUBLE_EQ(mapping.seconds, expected);
  // Each runs on one device of its own at the same time.
  EXPECT_NE(mapping.places[1].region, mapping.places[2].region);
}

// Four nodes with two sockets of three devices are divided into two nodes, one socket or one device
// for each side.
TEST(UnityMapping, DividesResourcesByQuantityNotBySubset) {
  const machine::Digits digits(machine::load_machine("summit:4"));
  Regions regions(digits);
  const auto free_in = [&](RegionId id) {
    std::int64_t out = 1;
    for (std::size_t i = 0; i < digits.count(); ++i) {
      if (regions[id].is_free(i)) out *= digits[i].size;
    }
    return out;
  };
  std::vector<std::pair<std::int64_t, std::int64_t>> sizes;
  for (const auto& d : regions.get_divisions(kWholeMachine)) {
    sizes.emplace_back(free_in(d.first), free_in(d.second));
  }
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected = {{12, 12}, {12, 12}, {8, 8}};
  EXPECT_EQ(sizes, expected);
  const auto halved = regions.get_divisions(regions.get_divisions(kWholeMachine)[0].first);
  ASSERT_EQ(halved.size(), 3U);
  EXPECT_EQ(free_in(halved[0].first), 6);
}

TEST(UnityMapping, DoesNotDivideTheRanksOfAPipeline) {
  const machine::Digits digits(machine::load_machine("summit:4"));
  const machine::DigitMask nodes = machine::bit(0) | machine::bit(1);
  Regions regions(digits, nodes);
  EXPECT_EQ(regions.get_divisions(kWholeMachine).size(), 2U);
  EXPECT_EQ(list_degrees(digits, digits.space() & ~nodes), (std::vector<std::int64_t>{2, 3, 6}));
}

// No parallelization operator is between the two. The edge costs by the placements of its ends.
TEST(UnityMapping, PaysForATensorBetweenDifferentPlacements) {
  Bench bench("summit:2");
  auto& placements = bench.placements;
  ParallelShape halves(Shape{1024, 1024});
  halves.degrees[0] = 2;
  const auto kind = placements.find_or_add_tensor_kind({halves, DType::kFp32});
  const auto& all = placements.get_placements(kind, kWholeMachine);
  ASSERT_EQ(all.size(), 2U);  // over the nodes, over the sockets of one
  const auto& table = placements.get_reshard_costs(kind, kWholeMachine, kind, kWholeMachine, 0);
  EXPECT_EQ(table.at(0, 0), 0);
  EXPECT_EQ(table.at(1, 1), 0);
  EXPECT_GT(table.at(0, 1), 0);
  EXPECT_GT(table.at(1, 0), 0);
  const auto side = placements.regions().get_divisions(kWholeMachine)[0];
  const auto apart = placements.get_reshard_costs(kind, side.first, kind, side.second, 0);
  EXPECT_GT(apart.at(0, 0), 0);
}

TEST(UnityMapping, CachesCostsOfSubgraphsAcrossCandidates) {
  Bench caching("summit:1");
  Bench uncached("summit:1", {.caches = false});
  const auto graph =
      models::parse_model("mlp:layers=8,hidden=96,inputs=96,outputs=96").build(96, DType::kFp32);
  const auto count_tables = [&](Bench& bench, std::vector<double>& costs) {
    std::mt19937_64 random(1);
    std::vector<std::size_t> out;
    for (std::size_t steps : {0U, 0U, 1U}) {
      const auto before = bench.substitutions.mapping().table_count();
      costs.push_back(
          bench.substitutions.mapping().cost(bench.tasks(bench.rewritten(graph, steps, random))));
      out.push_back(bench.substitutions.mapping().table_count() - before);
    }
    return out;
  };
  std::vector<double> costs;
  std::vector<double> others;
  const auto cached_tables = count_tables(caching, costs);
  const auto recomputed = count_tables(uncached, others);
  EXPECT_EQ(costs, others);
  EXPECT_EQ(cached_tables[1], 0U);
  EXPECT_EQ(recomputed[1], recomputed[0]);
  EXPECT_GT(cached_tables[2], 0U);
  EXPECT_LT(cached_tables[2], recomputed[2]);
}

}  // namespace
}  // namespace tandem::unity

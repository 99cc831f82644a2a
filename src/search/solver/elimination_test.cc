#include "search/solver/elimination.h"

#include <gtest/gtest.h>

#include <random>

#include "search/solver/network_test_support.h"

namespace tandem::search {
namespace {

// Returns the minimum over every assignment.
double brute_force(const CostNetwork& network) {
  std::vector<std::size_t> state(network.unary.size(), 0);
  double best = 1e38;
  while (true) {
    best = std::min(best, cost_of(network, state));
    std::size_t v = 0;
    while (v < state.size() && ++state[v] == network.unary[v]->rows) state[v++] = 0;
    if (v == state.size()) return best;
  }
}

// Returns a network whose edges come from series and parallel compositions, with pendant variables.
CostNetwork random_series_parallel(std::mt19937_64& random) {
  CostNetwork network;
  const auto add_variable = [&] {
    network.unary.push_back(random_table(random, 1 + random() % 4, 1));
    return network.unary.size() - 1;
  };
  const auto add_edge = [&](std::size_t a, std::size_t b) {
    network.edges.push_back(
        {a, b, random_table(random, network.unary[a]->rows, network.unary[b]->rows)});
  };
  add_edge(add_variable(), add_variable());
  while (network.unary.size() < 7) {
    const auto edge = network.edges[random() % network.edges.size()];
    switch (random() % 3) {
      case 0:
        add_edge(edge.a, edge.b);
        break;   // parallel
      case 1: {  // a parallel path
        const auto v = add_variable();
        add_edge(edge.a, v);
        add_edge(v, edge.b);
        break;
      }
      default:
        add_edge(edge.a, add_variable());
        break;  // a leaf
    }
  }
  return network;
}

TEST(Elimination, EqualsBruteForceOnSeriesParallelNetworks) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto network = random_series_parallel(random);
    const auto found = minimize(network);
    EXPECT_TRUE(found.exact);
    const double best = brute_force(network);
    if (best >= kImpossible) continue;  // every assignment is impossible
    EXPECT_FLOAT_EQ(static_cast<float>(found.cost), static_cast<float>(best));
    EXPECT_EQ(cost_of(network, found.state), best);
  }
}

// Returns a network with edges between random pairs, so many that most are not series-parallel.
CostNetwork random_dense(std::mt19937_64& random, std::size_t variables, std::size_t states) {
  CostNetwork network;
  for (std::size_t v = 0; v < variables; ++v) {
    network.unary.push_back(random_table(random, 1 + random() % states, 1));
  }
  for (std::size_t e = 0; e < 2 * variables; ++e) {
    const auto a = random() % variables;
    const auto b = random() % variables;
    if (a == b) continue;
    network.edges.push_back(
        {a, b, random_table(random, network.unary[a]->rows, network.unary[b]->rows)});
  }
  return network;
}

TEST(Elimination, EqualsBruteForceOnAnyNetwork) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto network = random_dense(random, 7, 4);
    const auto found = minimize(network);
    EXPECT_TRUE(found.exact);
    const double best = brute_force(network);
    EXPECT_EQ(best >= kImpossible, found.cost >= kImpossible);
    if (best >= kImpossible) continue;
    EXPECT_FLOAT_EQ(static_cast<float>(found.cost), static_cast<float>(best));
    EXPECT_EQ(cost_of(network, found.state), best);
  }
}

// The result then has a state for every variable and their true cost, which may not be the minimum.
TEST(Elimination, DropsStatesAtItsLimitAndReportsIt) {
  std::size_t inexact = 0;
  std::size_t best_found = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto network = random_dense(random, 7, 4);
    const auto found = minimize(network, {.table = 100, .total = 400, .table_beyond = 60});
    const double best = brute_force(network);
    if (!found.exact) ++inexact;
    if (found.exact && best < kImpossible) {
      EXPECT_FLOAT_EQ(static_cast<float>(found.cost), static_cast<float>(best));
    }
    if (found.cost >= kImpossible) continue;
    EXPECT_FLOAT_EQ(static_cast<float>(found.cost),
                    static_cast<float>(cost_of(network, found.state)));
    EXPECT_GE(found.cost, best);
    if (found.cost <= best) ++best_found;
  }
  EXPECT_GE(inexact, 30U);
  EXPECT_GE(best_found, 150U);
}

// Returns blocks that are not series-parallel: complete graphs on four variables, one after
// another.
TEST(Elimination, SharesTablesOfEqualBlocksOfAnyForm) {
  std::mt19937_64 random(3);
  const auto unary = random_table(random, 4, 1);
  std::vector<TablePtr> tables;
  for (int e = 0; e < 7; ++e) tables.push_back(random_table(random, 4, 4));
  const auto count_tables = [&](std::size_t blocks) {
    CostNetwork network;
    network.unary.assign(4 * blocks, unary);
    for (std::size_t first = 0; first < 4 * blocks; first += 4) {
      std::size_t e = 0;
      for (std::size_t a = 0; a < 4; ++a) {
        for (std::size_t b = a + 1; b < 4; ++b) {
          network.edges.push_back({first + a, first + b, tables[e++]});
        }
      }
      if (first > 0) network.edges.push_back({first - 1, first, tables[e]});
    }
    const auto found = minimize(network);
    EXPECT_TRUE(found.exact);
    return found.computed_tables;
  };
  EXPECT_LE(count_tables(64), count_tables(32) + 24);
}

CostNetwork make_equal_blocks(std::size_t blocks) {
  std::mt19937_64 random(7);
  const auto unary = random_table(random, 5, 1);
  const auto edge = random_table(random, 5, 5);
  CostNetwork network;
  network.unary.assign(blocks + 1, unary);
  for (std::size_t b = 0; b < blocks; ++b) network.edges.push_back({b, b + 1, edge});
  return network;
}

TEST(Elimination, SharesTablesOfEqualBlocks) {
  std::size_t before = 0;
  for (const std::size_t blocks : {16U, 32U, 64U, 128U, 256U}) {
    const auto network = make_equal_blocks(blocks);
    const auto computed = minimize(network).computed_tables;
    // Doubling the chain adds a few tables, far fewer than it has blocks.
    EXPECT_LE(computed, before + 24) << blocks;
    before = computed;
  }
}

TEST(Elimination, IsZeroForAnEmptyNetwork) {
  const auto found = minimize(CostNetwork{});
  EXPECT_EQ(found.cost, 0);
  EXPECT_TRUE(found.exact);
}

}  // namespace
}  // namespace tandem::search

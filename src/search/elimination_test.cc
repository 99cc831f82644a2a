#include "search/elimination.h"

#include <gtest/gtest.h>

#include <random>

namespace tandem::search {
namespace {

TablePtr random_table(std::mt19937_64& random, std::size_t rows, std::size_t cols) {
  auto table = std::make_shared<Table>();
  table->id = random();
  table->rows = rows;
  table->cols = cols;
  for (std::size_t i = 0; i < rows * cols; ++i) {
    table->cost.push_back(random() % 8 == 0 ? kImpossible : static_cast<float>(random() % 100));
  }
  return table;
}

double cost_of(const Network& network, const std::vector<std::size_t>& state) {
  double total = 0;
  for (std::size_t v = 0; v < state.size(); ++v) total += network.unary[v]->at(state[v]);
  for (const auto& e : network.edges) total += e.table->at(state[e.a], state[e.b]);
  return total;
}

// Tries every assignment.
double brute_force(const Network& network) {
  std::vector<std::size_t> state(network.unary.size(), 0);
  double best = 1e38;
  while (true) {
    best = std::min(best, cost_of(network, state));
    std::size_t v = 0;
    while (v < state.size() && ++state[v] == network.unary[v]->rows) state[v++] = 0;
    if (v == state.size()) return best;
  }
}

// A network whose edges come from series and parallel compositions, with pendant variables.
Network random_series_parallel(std::mt19937_64& random) {
  Network network;
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
      case 1: {  // a second path beside it
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
    const std::vector<std::size_t> pins(network.unary.size(), 0);
    const auto found = minimize(network, pins);
    EXPECT_TRUE(found.exact);
    const double best = brute_force(network);
    if (best >= kImpossible) continue;  // nothing is allowed
    EXPECT_FLOAT_EQ(static_cast<float>(found.cost), static_cast<float>(best));
    EXPECT_EQ(cost_of(network, found.state), best);
  }
}

TEST(Elimination, PinsAndSaysSoWhereTheNetworkIsNotSeriesParallel) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Network network;  // the complete graph on four variables
    for (int v = 0; v < 4; ++v) network.unary.push_back(random_table(random, 3, 1));
    for (std::size_t a = 0; a < 4; ++a) {
      for (std::size_t b = a + 1; b < 4; ++b)
        network.edges.push_back({a, b, random_table(random, 3, 3)});
    }
    const std::vector<std::size_t> pins(4, 1);
    const auto found = minimize(network, pins);
    EXPECT_FALSE(found.exact);
    if (found.cost >= kImpossible) continue;
    EXPECT_FLOAT_EQ(static_cast<float>(found.cost),
                    static_cast<float>(cost_of(network, found.state)));
    EXPECT_GE(found.cost, brute_force(network));
  }
}

Network chain_of_equal_blocks(std::size_t blocks) {
  std::mt19937_64 random(7);
  const auto unary = random_table(random, 5, 1);
  const auto edge = random_table(random, 5, 5);
  Network network;
  network.unary.assign(blocks + 1, unary);
  for (std::size_t b = 0; b < blocks; ++b) network.edges.push_back({b, b + 1, edge});
  return network;
}

TEST(Elimination, EqualBlocksShareTheirProducts) {
  std::size_t before = 0;
  for (const std::size_t blocks : {16U, 32U, 64U, 128U, 256U}) {
    const auto network = chain_of_equal_blocks(blocks);
    const std::vector<std::size_t> pins(blocks + 1, 0);
    const auto products = minimize(network, pins).products;
    // Doubling the chain adds a few products, not as many as it has blocks.
    EXPECT_LE(products, before + 24) << blocks;
    before = products;
  }
}

TEST(Elimination, OfNothingIsNothing) {
  const auto found = minimize(Network{}, {});
  EXPECT_EQ(found.cost, 0);
  EXPECT_TRUE(found.exact);
}

}  // namespace
}  // namespace tandem::search

#include "search/solver/local_search.h"

#include <gtest/gtest.h>

#include <random>

#include "search/solver/network_test_support.h"

namespace tandem::search {
namespace {

// Returns a network of some variables with up to four states each, and edges between some of them.
CostNetwork random_network(std::mt19937_64& random) {
  CostNetwork network;
  for (std::size_t v = 0; v < 6; ++v) {
    network.unary.push_back(random_table(random, 1 + random() % 4, 1));
    for (std::size_t other = 0; other < v; ++other) {
      if (random() % 2 == 0) continue;
      network.edges.push_back(
          {other, v, random_table(random, network.unary[other]->rows, network.unary[v]->rows)});
    }
  }
  return network;
}

constexpr double kClose = 1e-6;

TEST(LocalSearch, ReportsItsCostWhichIsNoBetterThanTheMinimum) {
  int found = 0;
  constexpr int kNetworks = 200;
  for (int seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const auto network = random_network(random);
    const Followers followers = {false, true, false, false, true, false};
    const double least = minimize(network).cost;
    for (const auto& minimum : {descend(network, followers), walk(network, followers, {})}) {
      const double cost = cost_of(network, minimum.state);
      EXPECT_NEAR(minimum.cost, cost, kClose * cost);
      EXPECT_GE(cost, least * (1 - kClose));
    }
    if (walk(network, followers, {}).cost <= least * (1 + kClose)) ++found;
  }
  // A walk finds the minimum of most networks as small as these.
  EXPECT_GT(found, kNetworks / 2);
}

TEST(LocalSearch, DescendsToALocalMinimum) {
  for (int seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const auto network = random_network(random);
    const auto minimum = descend(network, Followers(6, false));
    auto state = minimum.state;
    for (std::size_t v = 0; v < state.size(); ++v) {
      for (state[v] = 0; state[v] < network.unary[v]->rows; ++state[v]) {
        EXPECT_GE(cost_of(network, state), minimum.cost * (1 - kClose));
      }
      state[v] = minimum.state[v];
    }
  }
}

TEST(LocalSearch, IsDeterminedByItsSeed) {
  std::mt19937_64 random(7);
  const auto network = random_network(random);
  const Followers followers(6, false);
  const Walk one{.seed = 1};
  EXPECT_EQ(walk(network, followers, one).state, walk(network, followers, one).state);
}

}  // namespace
}  // namespace tandem::search
